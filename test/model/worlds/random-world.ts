// Worlds from seeds.

import { createRandom, type Random } from '../../support/random.js'
import {
  describeHabits,
  drawClocks,
  drawHabits,
  drawPlain,
  drawTroubles,
  expectedLength,
  type Habits,
  type Troubles,
} from './habits.js'
import {
  createWorldBuilder,
  type Fate,
  type Observation,
  START,
  type World,
  type WorldBuilder,
} from './world.js'

/** One network of a feed: its clock and its last report. */
interface Network {
  /** What its clock differs by, in the feed's unit. */
  offset: number
  /** The time of its last report. */
  previous: number | undefined
  digest: number
}

/** Seconds. */
const AHEAD = [4, 10, 240, 360, 3600]
/** Reports. */
const REPLAYS = [60, 250, 600, 1200]
/** Milliseconds on the wire, and more of them by chance. */
const LATENCY = 20
const JITTER = 300
/** The reports at the beginning, which all arrive, and those at the end, which link, too. */
const FIRST = 4
const LAST = 8
/** Seconds after which the next report of a network still links. */
const LONGEST_PAUSE = 250
/** How often the clock of a feed may go back for good. */
const BACKS = 2

/** Makes the world of a seed. */
export function randomWorld(seed: number): World {
  const random = createRandom(seed)
  const isPlain = random.chance(0.15)
  const size = random.chance(0.02) ? random.pick(700, 2500) : random.pick(60, 160)
  const draw = isPlain ? drawPlain : drawHabits
  const [first, ...more] = [draw(random), ...(random.chance(0.15) ? [draw(random)] : [])]
  const clocks = drawClocks(random, isPlain, expectedLength(first as Habits, size))
  // Where the machine's clock is ahead and nothing has a date, nobody can know that a report is ahead as well.
  const isBlind = clocks.error > 0 && clocks.date === undefined
  const habits = [first as Habits, ...more].map(each =>
    isBlind ? { ...each, ahead: 0, isFirstAhead: false } : each,
  )
  const troubles = drawTroubles(random, isPlain, expectedLength(first as Habits, size))
  const builder = createWorldBuilder(habits.map(({ second }) => second))
  const ends = habits.map((each, feed) =>
    publishFeed({ builder, random, feed, habits: each, troubles, size, isPlain }),
  )
  addTroubles(builder, troubles)
  const calm = builder.lastAt + 1000
  for (const [feed, end] of ends.entries()) {
    const { second } = habits[feed] as Habits
    if (isPlain) publishOn(builder, feed, end, second, calm)
    publishLast(builder, feed, end, second, calm)
  }
  const order = random.of(['arrival', 'sorted'] as const)
  const maxBackfill = random.of([300_000, 300_000, 86_400_000])
  return builder.build({
    seed,
    continuity: { order, maxBackfill },
    origins: troubles.origins,
    faults: troubles.faults,
    ends: random.of(['failure', 'close']),
    clocks,
    traits: [
      `${isPlain ? 'plain, ' : ''}${order}, maxBackfill ${maxBackfill}, ${size} reports`,
      ...habits.map(describeHabits),
      JSON.stringify(troubles),
      JSON.stringify(clocks),
    ],
    isPlain,
  })
}

interface FeedParts {
  readonly builder: WorldBuilder
  readonly random: Random
  readonly feed: number
  readonly habits: Habits
  readonly troubles: Troubles
  readonly size: number
  readonly isPlain: boolean
}

/** A feed but for its last reports. */
interface FeedEnd {
  /** The one that goes on. */
  readonly network: Network
  /** The times of which it has reports. */
  readonly used: ReadonlySet<number>
}

/** Publishes all of a feed but its last reports. */
function publishFeed(parts: FeedParts): FeedEnd {
  const { builder, random, feed, habits, troubles, size, isPlain } = parts
  const { second } = habits
  const longest = 300 * second
  const networks = Array.from(
    { length: habits.isDouble ? 2 : 1 },
    (_, digest): Network => ({ offset: 0, previous: undefined, digest }),
  )
  const used = new Set<number>()
  const published: Observation[] = []
  const quiets = troubles.outages.filter(({ quiet }) => quiet > 0)
  let digests = networks.length
  let backs = 0
  let at = 0

  function publish(network: Network, from: number, to: number): void {
    if (used.has(to)) return
    const made = { from: Math.max(1, from), to, digest: network.digest }
    const fate = drawFate(random, habits, troubles.storeLag, used.size < (isPlain ? FIRST : 1))
    used.add(to)
    const observation = builder.publish(feed, at, made, fate)
    if (fate.storedAfter !== undefined || fate.sent.length > 0) published.push(observation)
    network.previous = to
  }

  /** Where the report of a time begins: where the last one ended, but at most the longest range back. */
  function beginOf({ previous }: Network, time: number): number {
    if (previous === undefined || habits.isUnlinked || previous >= time) return time
    if (random.chance(habits.longest)) return time - longest + 1
    if (random.chance(habits.day)) return time - 86_400 * second + 1
    return Math.max(previous + 1, time - longest + 1)
  }

  function publishAhead(network: Network): void {
    const { previous } = network
    const ahead = random.of(AHEAD) * second
    const isLinked = random.chance(0.7)
    const count = random.pick(1, 3)
    for (let made = 0; made < count; made++) {
      if (made > 0) at += random.of(habits.steps)
      const to = timeOf(at, second, network) + ahead
      publish(network, isLinked ? beginOf(network, to) : to, to)
    }
    // Back at its time, it links to what it published before.
    if (random.chance(0.7)) network.previous = previous
  }

  /** A plain feed shows first that its reports link. */
  function stepAt(index: number): number {
    return isPlain && index < FIRST ? 2000 : random.of(habits.steps)
  }

  for (let index = 0; index < size; index++) {
    at += random.chance(habits.pause) ? random.pick(2, 400) * 1000 : stepAt(index)
    if ((quiets[0]?.to ?? at) < at) at += quiets.shift()?.quiet ?? 0
    const network = networks[index % networks.length] as Network
    if (backs < BACKS && random.chance(habits.back)) {
      backs++
      network.offset -= 3600 * second
      network.previous = undefined
    }
    if (random.chance(habits.handOver)) {
      network.digest = digests++
      if (network.previous !== undefined) network.previous -= random.pick(0, 4)
    }
    const isAhead = random.chance(habits.ahead) || (index === 0 && habits.isFirstAhead)
    const time = timeOf(at, second, network)
    if (isAhead) publishAhead(network)
    else publish(network, beginOf(network, time), time)
    if (random.chance(habits.replay)) replay(builder, random, published, at)
  }
  for (const [index, lag] of troubles.lags.entries())
    sendLate(builder, random, published, lag, index + 1)
  return { network: networks[0] as Network, used }
}

function timeOf(at: number, second: 1 | 1000, { offset }: Network): number {
  return Math.floor(((START + at) / 1000) * second) + offset
}

function drawFate(random: Random, habits: Habits, lag: number, isFirst: boolean): Fate {
  const stored = random.chance(0.3) ? habits.storeLate : 0
  const storedAfter = lag + random.pick(0, 200) + (stored > 0 ? random.pick(0, stored) : 0)
  const late =
    habits.wireLate > 0 && !isFirst && random.chance(0.1) ? random.pick(0, habits.wireLate) : 0
  const sent = [{ origin: 0, after: LATENCY + random.pick(0, JITTER) + late }]
  const fate = random.next()
  // What comes first is known, so that there is something to miss others after.
  if (isFirst || fate >= habits.lost + habits.unstored + habits.gone) return { storedAfter, sent }
  if (fate < habits.lost) return { storedAfter, sent: [] }
  if (fate < habits.lost + habits.unstored) return { storedAfter: undefined, sent }
  return { storedAfter: undefined, sent: [] }
}

function replay(
  builder: WorldBuilder,
  random: Random,
  published: readonly Observation[],
  now: number,
): void {
  const at = now + random.pick(400, 1500)
  for (const observation of published.slice(-random.of(REPLAYS)))
    builder.happen({ type: 'report', at, observation, origin: 0 })
}

/** Another origin sends the same, and some of what the first one does not. */
function sendLate(
  builder: WorldBuilder,
  random: Random,
  published: readonly Observation[],
  lag: Troubles['lags'][number],
  origin: number,
): void {
  const end = (published.at(-1)?.at ?? 0) + 1000
  for (const [index, observation] of published.entries()) {
    if (random.chance(0.1)) continue
    const later = 'reports' in lag ? (published[index + lag.reports]?.at ?? end + index) : undefined
    const at = later ?? observation.at + ('ms' in lag ? lag.ms : 0)
    builder.happen({
      type: 'report',
      at: at + LATENCY + random.pick(0, JITTER),
      observation,
      origin,
    })
  }
}

function addTroubles(builder: WorldBuilder, troubles: Troubles): void {
  const { origins, outages, mutes, restAways, restarts } = troubles
  for (const { from, to } of outages)
    for (let origin = 0; origin < origins; origin++) {
      builder.happen({ type: 'down', at: from, origin })
      builder.happen({ type: 'up', at: to + 20 * origin, origin })
    }
  for (const { from, to } of mutes) {
    builder.happen({ type: 'mute', at: from, origin: 0 })
    // Where nobody has connected anew, the connection breaks.
    builder.happen({ type: 'down', at: to, origin: 0 })
    builder.happen({ type: 'up', at: to + 1000, origin: 0 })
  }
  for (const { from, to } of restAways) {
    builder.happen({ type: 'rest-away', at: from })
    builder.happen({ type: 'rest-back', at: to })
  }
  for (const { from, to, by } of restarts)
    builder.happen({ type: 'restart', at: from, by, after: to - from })
}

/** Publishes reports that link until all is calm, so that the last ones link, too. */
function publishOn(
  builder: WorldBuilder,
  feed: number,
  { network }: FeedEnd,
  second: 1 | 1000,
  calm: number,
): void {
  const step = LONGEST_PAUSE * second
  const sent = [{ origin: 0, after: LATENCY }]
  for (let { previous } = network; previous !== undefined; previous = network.previous) {
    const to = previous + step
    const at = (to / second) * 1000 - START
    if (at >= calm) return
    builder.publish(feed, at, { from: previous + 1, to }, { storedAfter: 100, sent })
    network.previous = to
  }
}

/** The last reports of a feed: all arrive, and nothing is late any more. */
function publishLast(
  builder: WorldBuilder,
  feed: number,
  { network, used }: FeedEnd,
  second: 1 | 1000,
  calm: number,
): void {
  for (let index = 0; index < LAST; index++) {
    const at = calm + 1000 * index
    const { previous } = network
    const now = timeOf(at, second, network)
    // A clock that was ahead at the end has its reports ahead of it.
    let to = previous === undefined || previous < now ? now : previous + second
    while (used.has(to)) to += second
    const from = Math.max((previous ?? to - 1) + 1, to - 300 * second + 1)
    builder.publish(
      feed,
      at,
      { from, to, digest: network.digest },
      { storedAfter: 100, sent: [{ origin: 0, after: LATENCY }] },
    )
    network.previous = to
  }
}
