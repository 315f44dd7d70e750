// Connections that are open and bring nothing, in virtual time: while REST answers, no report is later than 35 s.
import { expect, test } from '@jest/globals'
import { runWorld } from './worlds/run-world.js'
import { createWorldBuilder, START, type World } from './worlds/world.js'

/** Seconds by which a report may be late. */
const BOUND = 35
const MINUTES = 12

/** A feed of reports every so many milliseconds; from the second minute on these origins are mute. */
function muteWorld(
  origins: number,
  mute: readonly number[],
  isForGood: boolean,
  step: number,
): World {
  const builder = createWorldBuilder([1000])
  let previous = START
  for (let at = step; at < MINUTES * 60_000; at += step) {
    const sent = Array.from({ length: origins }, (_, origin) => ({ origin, after: 50 }))
    builder.publish(0, at, { from: previous + 1, to: START + at }, { storedAfter: 100, sent })
    previous = START + at
  }
  for (const origin of mute)
    builder.happen({ type: 'mute', at: 60_000 + 1234 * (origin + 1), origin, isForGood })
  return builder.build({ origins, continuity: { order: 'arrival' } })
}

test.each([
  ['the only socket', 1, [0], false, 1000],
  ['the only socket, and all after it', 1, [0], true, 1000],
  ['the only socket, and all after it, of a fast feed', 1, [0], true, 200],
  ['the only socket, and all after it, of a feed of five seconds', 1, [0], true, 5000],
  ['one of two sockets', 2, [0], true, 1000],
  ['both sockets', 2, [0, 1], false, 1000],
  ['both sockets, and all after them', 2, [0, 1], true, 1000],
  ['three sockets, and all after them', 3, [0, 1, 2], true, 1000],
] as const)('%s', async (_name, origins, mute, isForGood, step) => {
  const world = muteWorld(origins, mute, isForGood, step)
  const { sessions, requests } = await runWorld(world)
  const [session] = sessions
  const delivered = new Map(session?.feeds[0]?.delivered.map(({ to, at }) => [to, at]))
  const late = world.feeds[0]?.observations
    .map(({ to, at }) => ({
      to,
      late: ((delivered.get(to) ?? Number.POSITIVE_INFINITY) - at) / 1000,
    }))
    .filter(({ late }) => late > BOUND)
  expect(late).toEqual([])
  // Two requests in half a minute, and a page for each 100 reports.
  const pages = (60_000 * MINUTES) / 15_000 + (60_000 * MINUTES) / step / 100
  expect(requests.length).toBeLessThan(pages)
})

test.each([2, 5])(
  'a feed that is stale after %d s has its mute connection opened anew',
  async staleAfter => {
    const world = muteWorld(1, [0], false, 1000)
    const { sessions } = await runWorld({ ...world, staleAfter: 1000 * staleAfter })
    const [session] = sessions
    expect(session?.resets).toHaveLength(1)
    expect(((session?.resets[0] ?? 0) - 61_234) / 1000).toBeLessThan(staleAfter + 15)
  },
)
