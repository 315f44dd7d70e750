import { expect, test } from '@jest/globals'
import { abortable, sleep } from '../../core/async.js'
import { createLifetime, withTimeout } from '../../core/lifetime.js'

const late = new Error('late')
const never = new Promise<never>(() => undefined)

test('work settles as it would without a limit, and its signal is over then', async () => {
  const signals: AbortSignal[] = []
  const note =
    <Value>(settled: Promise<Value>) =>
    (signal: AbortSignal) => {
      signals.push(signal)
      return settled
    }
  await expect(withTimeout(1000, () => late, note(Promise.resolve(1)))).resolves.toBe(1)
  await expect(
    withTimeout(1000, () => late, note(Promise.reject(new Error('no')))),
  ).rejects.toThrow('no')
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])
})

test('work that heeds its signal ends late, with the error that says so', async () => {
  await expect(
    withTimeout(
      1,
      () => late,
      signal => sleep(60_000, signal),
    ),
  ).rejects.toBe(late)
})

test('work that ignores its signal is not waited for if it is abortable', async () => {
  await expect(
    withTimeout(
      1,
      () => late,
      signal => abortable(never, signal),
    ),
  ).rejects.toBe(late)
})

test('the reason of a parent comes before the limit', async () => {
  const gone = new Error('gone')
  const parent = createLifetime()
  const work = withTimeout(
    60_000,
    () => late,
    signal => abortable(never, signal),
    parent,
  )
  parent.end(gone)
  await expect(work).rejects.toBe(gone)
})
