import { AsyncResource } from 'node:async_hooks'
import { expect, test } from '@jest/globals'
import { WorkMeter } from '../../thread/work-meter.js'

/** Works for some milliseconds. */
function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

test('all that a request causes counts for its caller, and nothing else does', async () => {
  const told: Record<string, number> = { a: 0, b: 0 }
  const meter = new WorkMeter((caller, ms) => {
    told[caller] = (told[caller] as number) + ms
  })
  async function request(ms: number): Promise<void> {
    await null
    work(ms)
    await new Promise(resolve => setTimeout(resolve, 20))
    work(ms)
  }
  const waiting = [meter.run('a', () => request(30)), meter.run('b', () => request(5))]
  work(100)
  await Promise.all(waiting)
  await request(50)
  // Callbacks may be nested: what follows the inner one counts, too.
  await meter.run('b', async () => {
    const inner = new AsyncResource('inner')
    await null
    inner.runInAsyncScope(() => work(10))
    work(30)
  })
  // Told are steps of two milliseconds.
  expect(told.a).toBeGreaterThan(55)
  expect(told.b).toBeGreaterThan(44)
  expect((told.a as number) + (told.b as number)).toBeLessThan(60 + 50 + 100)
})
