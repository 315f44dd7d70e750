import { expect, jest, test } from '@jest/globals'
import type * as engine from '../../../plugins/verify/engine.js'
import type { ReportVerificationError } from '../../../report/verifier.js'
import { makeReport, reportOf, signers } from '../../support/report/signed-reports.js'

jest.doMock('../../../plugins/verify/engine.js', () => ({
  ...jest.requireActual<typeof engine>('../../../plugins/verify/engine.js'),
  loadEngine: async () => {
    throw new Error('a bundle has lost this part')
  },
}))

test('an engine that can’t be loaded rejects what it was to verify, and what comes later', async () => {
  const { createVerifier } = await import('../../../plugins/verify/verifier.js')
  const verifier = createVerifier({ signers, workers: 0 })
  const check = () =>
    new Promise<ReportVerificationError | undefined>(resolve =>
      verifier.check(reportOf(makeReport()), resolve),
    )
  for (const error of [...(await Promise.all([check(), check()])), await check()])
    expect(error).toMatchObject({
      reason: 'engine-unavailable',
      cause: new Error('a bundle has lost this part'),
    })
  verifier.end()
})
