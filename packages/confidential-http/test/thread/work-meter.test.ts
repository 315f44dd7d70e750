import { AsyncResource } from 'node:async_hooks'
import { expect, test } from '@jest/globals'
import { WorkMeter } from '../../thread/work-meter.js'

/** Works for some milliseconds. Returns for how many: the machine may have done something else meanwhile. */
function work(ms: number): number {
  const begun = performance.now()
  while (performance.now() < begun + ms);
  return performance.now() - begun
}

test('all that a request causes counts for its caller, and nothing else does', async () => {
  const told: Record<string, number> = { a: 0, b: 0 }
  const done: Record<string, number> = { a: 0, b: 0 }
  const did = (caller: string, ms: number): void => {
    done[caller] = (done[caller] as number) + work(ms)
  }
  const begun = performance.now()
  const meter = new WorkMeter((caller, ms) => {
    told[caller] = (told[caller] as number) + ms
  })
  async function request(step: () => void): Promise<void> {
    await null
    step()
    await new Promise(resolve => setTimeout(resolve, 20))
    step()
  }
  const waiting = [
    meter.run('a', () => request(() => did('a', 30))),
    meter.run('b', () => request(() => did('b', 5))),
  ]
  let ofNobody = work(100)
  await Promise.all(waiting)
  await request(() => {
    ofNobody += work(25)
  })
  // Callbacks may be nested: what follows the inner one counts, too.
  await meter.run('b', async () => {
    const inner = new AsyncResource('inner')
    await null
    inner.runInAsyncScope(() => did('b', 10))
    did('b', 30)
  })
  meter.end()
  // Less than two milliseconds of each are not told.
  for (const caller of ['a', 'b'])
    expect(told[caller]).toBeGreaterThan((done[caller] as number) - 2)
  const ofCallers = (told.a as number) + (told.b as number)
  expect(ofCallers).toBeLessThan(performance.now() - begun - ofNobody)
})
