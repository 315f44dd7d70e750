import { afterEach, expect, test } from '@jest/globals'
import { createLateVerifier } from '../../../plugins/verify/late-verifier.js'
import type { Verifier } from '../../../plugins/verify/verifier.js'
import type { Report } from '../../../report/report.js'
import { makeReport, reportOf, signers } from '../../support/report/signed-reports.js'

const good = reportOf(makeReport())
const other = reportOf(makeReport({ sequenceNumber: 2 }))
const forged = reportOf(makeReport({ by: [0, 9, 2] }))

let verifier: Verifier
afterEach(() => verifier.end())

/** A verifier that has loaded nothing, and the reports that it has settled. */
function make(): { settled: Report[]; check: (report: Report) => () => void } {
  const settled: Report[] = []
  verifier = createLateVerifier({ signers, workers: 0 })
  return { settled, check: report => verifier.check(report, () => settled.push(report)) }
}

const check = (report: Report) => new Promise(resolve => verifier.check(report, resolve))

test('the first reports wait until it is loaded, and have their verdicts', async () => {
  make()
  const verdicts = await Promise.all([check(good), check(forged), check(other)])
  expect(verdicts).toEqual([
    undefined,
    expect.objectContaining({ code: 'VERIFICATION', reason: 'unknown-signer' }),
    undefined,
  ])
})

test('a check that is cancelled before it is loaded, or after, does not settle', async () => {
  const { settled, check: start } = make()
  const cancel = start(good)
  const cancelLater = start(other)
  cancel()
  await Promise.resolve()
  cancelLater()
  await check(forged)
  expect(settled).toEqual([])
})

test('nothing settles where it was ended before it is loaded', async () => {
  const { settled, check: start } = make()
  start(good)
  verifier.end()
  await new Promise(resolve => setTimeout(resolve, 200))
  start(other)
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(settled).toEqual([])
})
