import { afterEach, expect, test } from '@jest/globals'
import { readVerifyOptions, type VerifyOptions } from '../../../plugins/verify/options.js'
import { Verifier } from '../../../plugins/verify/verifier.js'
import type { Report } from '../../../report/report.js'
import { makeReport, reportOf, signers } from '../../support/report/signed-reports.js'
import { slowSource } from '../../support/wire/verify.js'

const good = reportOf(makeReport())
const other = reportOf(makeReport({ sequenceNumber: 2 }))
const forged = reportOf(makeReport({ by: [0, 9, 2] }))

let verifier: Verifier
afterEach(() => verifier.end())

/** A verifier that has loaded nothing, and the reports that it has settled. */
function make(options: Partial<VerifyOptions> = {}) {
  const settled: Report[] = []
  verifier = new Verifier(readVerifyOptions({ signers, workers: 0, ...options }))
  const start = (report: Report) => verifier.check(report, () => settled.push(report))
  return { settled, start }
}

const check = (report: Report) =>
  new Promise<Error | undefined>(resolve => verifier.check(report, resolve))

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
  const { settled, start } = make()
  const cancel = start(good)
  const cancelLater = start(other)
  cancel?.()
  await Promise.resolve()
  cancelLater?.()
  await check(forged)
  expect(settled).toEqual([])
})

test('a verifier that ends before it is loaded fails the checks, once each', async () => {
  make()
  const early = check(good)
  verifier.end()
  const closed = expect.objectContaining({ code: 'CLOSED' })
  expect(await early).toEqual(closed)
  expect(await check(other)).toEqual(closed)
  await new Promise(resolve => setTimeout(resolve, 200))
  expect(verifier.facts().threads).toBeUndefined()
})

test('a check is cancelled when all its callers have cancelled it', async () => {
  const { source, asked, answer } = slowSource(signers)
  const { settled, start } = make({ signers: source })
  const controllers = [new AbortController(), new AbortController()] as const
  const all = controllers.map(({ signal }) => verifier.checkAll([good, other], signal))
  for (const each of all) void each.then(() => settled.push(forged))
  start(other)
  while (asked.length === 0) await new Promise(setImmediate)
  controllers[0].abort()
  expect([good, other].map(each => verifier.awaitsSigners(each))).toEqual([true, true])
  controllers[1].abort()
  expect([good, other].map(each => verifier.awaitsSigners(each))).toEqual([false, true])
  answer()
  expect(await check(other)).toBeUndefined()
  expect(settled).toEqual([other])
  expect(await check(good)).toBeUndefined()
})
