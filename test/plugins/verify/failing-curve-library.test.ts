import { expect, jest, test } from '@jest/globals'
import { readVerifyOptions } from '../../../plugins/verify/options.js'
import { makeReport, reportOf, signers } from '../../support/report/signed-reports.js'

jest.doMock('../../../platform/secp256k1.js', () => ({
  async loadSecp256k1() {
    throw new Error('a bundle has lost this part')
  },
}))

test('a curve library that can’t be loaded rejects what it was to verify, and what comes later', async () => {
  const { Verifier } = await import('../../../plugins/verify/verifier.js')
  const verifier = new Verifier(readVerifyOptions({ signers, workers: 0 }))
  const check = () =>
    new Promise<Error | undefined>(resolve => verifier.check(reportOf(makeReport()), resolve))
  for (const error of [...(await Promise.all([check(), check()])), await check()])
    expect(error).toMatchObject({
      reason: 'curve-library-unavailable',
      cause: new Error('a bundle has lost this part'),
    })
  verifier.end()
})
