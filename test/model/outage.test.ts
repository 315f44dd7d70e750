// own realm: it measures the heap in the full tier.
// What takes hours, in virtual time: a service that is away, and one that closes every connection after a while.
import { afterEach, describe, expect, test } from '@jest/globals'
import type { ContinuityOptions } from '../../index.js'
import { reachable } from '../support/fuzz/fuzz.js'
import { inForm, isFull } from '../support/tier.js'
import { type Continuum, type Fate, startContinuum } from './continuum.js'
import { randomOf } from './runs.js'

const SECOND = 1000
const HOUR = 3_600_000
const live: Fate = { isStreamed: true, isStored: true, copies: 1, lateBy: 0 }

let real: Continuum

async function start(continuity: ContinuityOptions): Promise<void> {
  real = startContinuum({ origins: 1, continuity, random: randomOf(7) })
  await real.time.pass(SECOND)
}
afterEach(() => real.time.end())

/** So many reports, one every so many seconds. */
async function publish(count: number, every = 1): Promise<void> {
  for (let made = 0; made < count; made++) {
    real.publish(0, live)
    await real.time.pass(every * SECOND)
  }
}

function lose(closeCode: number): void {
  for (const line of real.upstream.open()) real.upstream.end(line, closeCode)
}

const sorted: ContinuityOptions = { order: 'sorted', reorderBuffer: 30_000, reorderTimeout: HOUR }

const durations: [string, number, number, ContinuityOptions][] = [
  ['60 s', 60, 1, {}],
  ['10 min', 600, 1, sorted],
  ['6 h', 4320, 5, {}],
  ['6 h, sorted', 4320, 5, sorted],
]

describe('a service that is away', () => {
  test.each(isFull ? durations : durations.slice(0, 2))(
    'for %s gets few attempts, and the reports that it stored are fetched',
    async (...given) => {
      const [, count, every, options] = given
      await start({ ...options, maxBackfill: 7 * HOUR })
      const [origin] = real.upstream.origins
      if (origin === undefined) throw new Error('there is no origin')
      await publish(10)
      origin.manner = 'refuse'
      lose(1006)
      const before = real.upstream.lines.length
      await publish(count, every)
      const attempts = real.upstream.lines.length - before
      const seconds = count * every
      // Doubled from one second up to ten, half of it chance: five attempts at first, then one in five seconds at most.
      expect(attempts).toBeLessThanOrEqual(5 + seconds / 5)
      expect(attempts).toBeGreaterThanOrEqual(Math.floor(seconds / 10))
      origin.manner = 'accept'
      // Ten seconds to the next attempt, and ten pages of a hundred in each further one.
      await publish(15 + Math.ceil(count / 1000))
      expect(real.upstream.open().length).toBe(1)
      expect(real.delivered).toBeGreaterThan(count)
      await real.finish()
      expect(real.gaps).toBe(0)
    },
  )

  test('for longer than is fetched leaves one gap, and no more', async () => {
    await start({})
    await publish(10)
    for (const origin of real.upstream.origins) origin.manner = 'refuse'
    lose(1006)
    await publish(720, 10)
    for (const origin of real.upstream.origins) origin.manner = 'accept'
    await publish(30)
    await real.finish()
    expect(real.gaps).toBe(1)
    // Of the two hours that are missing the last five minutes are fetched.
    expect(real.delivered).toBeGreaterThan(10 + 30 + 25)
  })
})

const ROTATIONS = inForm(20, 180)

test('connections that are closed every 20 s lose nothing, double nothing, and leave nothing behind', async () => {
  await start(sorted)
  const heap: number[] = []
  for (let rotation = 0; rotation < ROTATIONS; rotation++) {
    await publish(20)
    lose(1000)
    // The service of this test would keep all that a connection consisted of.
    for (const line of real.upstream.lines)
      if (line.endedAt !== undefined) Object.assign(line, { events: undefined })
    if (isFull && (rotation === 30 || rotation === ROTATIONS - 1)) heap.push(reachable())
  }
  expect(real.upstream.lines.length).toBeLessThanOrEqual(ROTATIONS + 2)
  const [early = 0, late = 0] = heap
  // The ledger of this test itself grows by about half a megabyte.
  expect(late - early).toBeLessThan(2_097_152)
  await real.finish()
  expect(real.gaps).toBe(0)
  expect(real.delivered).toBeGreaterThan(20 * ROTATIONS)
})
