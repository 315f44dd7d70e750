import { expect, jest, test } from '@jest/globals'
import type * as library from '../../../plugins/verify/curve-library.js'
import type { ReportVerificationError } from '../../../report/verifier.js'
import { makeReport, reportOf, signers } from '../../support/report/signed-reports.js'

jest.doMock('../../../plugins/verify/curve-library.js', () => ({
  ...jest.requireActual<typeof library>('../../../plugins/verify/curve-library.js'),
  loadCurveLibrary: async () => {
    throw new Error('a bundle has lost this part')
  },
}))

test('a curve library that can’t be loaded rejects what it was to verify, and what comes later', async () => {
  const { createVerifier } = await import('../../../plugins/verify/verifier.js')
  const verifier = createVerifier({ signers, workers: 0 })
  const check = () =>
    new Promise<ReportVerificationError | undefined>(resolve =>
      verifier.check(reportOf(makeReport()), resolve),
    )
  for (const error of [...(await Promise.all([check(), check()])), await check()])
    expect(error).toMatchObject({
      reason: 'curve-library-unavailable',
      cause: new Error('a bundle has lost this part'),
    })
  verifier.end()
})
