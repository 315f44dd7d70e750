// Clocks that are wrong, over a log: that of a worker, ahead and behind, and that of the service. Cursors are saved all the same, and
// the next worker goes on from them.
import { expect, test } from '@jest/globals'
import { memoryCursors } from '@sluice/test-support/memory-cursors.js'
import { feed, keyOf, startWorld } from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'

const [MINUTE, HOUR] = [60_000, 3_600_000]

test.each([
  ['the worker is an hour behind', -HOUR, 0],
  ['the worker is a minute behind', -MINUTE, 0],
  ['the worker is 8 s behind', -8000, 0],
  ['the worker is 8 s ahead', 8000, 0],
  ['the worker is an hour ahead', HOUR, 0],
  ['the service is 8 s ahead of worker and log', 0, 8000],
  ['the service is a minute ahead of worker and log', 0, MINUTE],
  ['the service is an hour ahead of worker and log', 0, HOUR],
  ['the service is 8 s behind worker and log', 0, -8000],
  ['the service is an hour behind worker and log', 0, -HOUR],
])(
  '%s: what came while no worker was there is read by the next',
  async (_name, worker, service) => {
    const world = await startWorld()
    const engine = await world.engine({ now: () => Date.now() + service })
    const relay = await world.relay(engine)
    const cursors = memoryCursors()
    const now = () => Date.now() + worker
    const open = () => world.worker({ now, stream: { cursors, saveInterval: 10 } })
    const publish = async (count: number) => {
      const published = []
      for (let at = 0; at < count; at++) {
        published.push(engine.publish(feed(1 + (at % 2))))
        await pause(50)
      }
      return published
    }

    const first = await open()
    const before = await publish(60)
    await until(() => first.reports.length >= 60)
    await pause(200)
    const newest = before.at(-1)?.observationsTimestamp ?? 0
    // A service that is ahead of two others moves nobody's present: cursors stop there.
    // Each first cursor lies 30 s before the stream, for reports that arrive late.
    const behind = Math.max(0, service) + 40_000
    for (const index of [1, 2])
      expect(newest - (cursors.saved[feed(index)] ?? 0)).toBeLessThan(behind)
    await first.client.close()

    const missed = await publish(30)
    await until(() => relay.getMetrics().stored === 90)
    const second = await open()
    const live = await publish(10)
    const wanted = [...missed, ...live].map(keyOf)
    await until(() => {
      const got = new Set(second.reports.map(keyOf))
      return wanted.every(key => got.has(key))
    })
    const all = second.reports.map(keyOf)
    expect(new Set(all).size).toBe(all.length)
    expect([...first.gaps, ...second.gaps]).toEqual([])
  },
)
