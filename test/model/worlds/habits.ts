// What a feed of a world is like: drawn once for each, so that worlds with few things in them are as frequent as mixtures.
import type { Random } from '../../support/random.js'
import type { PageFaults, WorldClocks } from './world.js'

const STORE_LAGS = [3000, 9000, 15_000, 30_000, 55_000, 70_000, 120_000]
const OUTAGES = [5000, 20_000, 60_000, 240_000, 600_000]

/** What a feed does, and how often. Probabilities are per report, times in milliseconds. */
export interface Habits {
  readonly second: 1 | 1000
  /** The steps between its reports, in milliseconds. */
  readonly steps: readonly number[]
  /** Of a step of 2 to 400 s. */
  readonly pause: number
  /** Each report claims its own time alone, though it steps by more. */
  readonly isUnlinked: boolean
  /** Of being stored alone, of being sent alone, and of neither. */
  readonly lost: number
  readonly unstored: number
  readonly gone: number
  /** Most that a report is late on the wire, and in the store. */
  readonly wireLate: number
  readonly storeLate: number
  /** Of a clock that is ahead for one, two or three reports, and of one that goes back for good. */
  readonly ahead: number
  readonly back: number
  /** The clock of the first report is ahead. */
  readonly isFirstAhead: boolean
  /** Of another configuration, whose first report begins before the last one ended. */
  readonly handOver: number
  /** Of a range of exactly the longest, and of one of a day. */
  readonly longest: number
  readonly day: number
  /** Two networks publish the feed, each with its own configuration. */
  readonly isDouble: boolean
  /** Of copies of what was published last. */
  readonly replay: number
}

/** A time in which something is not as usual, in milliseconds since the start of the world. */
export interface Spell {
  readonly from: number
  readonly to: number
}

/** What befalls the connections and the service of a world. */
export interface Troubles {
  readonly origins: number
  /** How the other origins lag: behind by so many reports, or by a time. */
  readonly lags: readonly ({ readonly reports: number } | { readonly ms: number })[]
  /** No connection is open; afterwards feeds are quiet for a while. */
  readonly outages: readonly (Spell & { readonly quiet: number })[]
  /** The connections of the first origin are open, and bring nothing. */
  readonly mutes: readonly Spell[]
  readonly restAways: readonly Spell[]
  readonly restarts: readonly (Spell & { readonly by: 'failure' | 'close' })[]
  readonly faults: PageFaults
  /** Milliseconds by which the whole store lags behind the stream. */
  readonly storeLag: number
}

const plain: Habits = {
  second: 1,
  steps: [1000],
  pause: 0,
  isUnlinked: false,
  lost: 0,
  unstored: 0,
  gone: 0,
  wireLate: 0,
  storeLate: 0,
  ahead: 0,
  back: 0,
  isFirstAhead: false,
  handOver: 0,
  longest: 0,
  day: 0,
  isDouble: false,
  replay: 0,
}

/** Draws a feed that links, and in which reports are lost, or late by less than three seconds, and no more. */
export function drawPlain(random: Random): Habits {
  return {
    ...plain,
    second: random.chance(0.25) ? 1000 : 1,
    steps: random.of([
      [2000],
      [2000, 5000],
      [1000, 2000],
      [1000, 1000, 1000, 30_000],
      [2000, 250_000],
    ]),
    lost: random.next() * 0.4,
    unstored: random.chance(0.3) ? random.next() * 0.05 : 0,
    gone: random.chance(0.4) ? random.next() * 0.05 : 0,
    wireLate: random.chance(0.3) ? random.pick(100, 2500) : 0,
    storeLate: random.chance(0.5) ? random.pick(200, 2500) : 0,
  }
}

/** Draws a feed with some of everything. */
export function drawHabits(random: Random): Habits {
  const sometimes = (probability: number, value: number): number =>
    random.chance(probability) ? value : 0
  const second = random.chance(0.25) ? 1000 : 1
  const isUnlinked = random.chance(0.1)
  const steps =
    second === 1 ? [[1000], [1000], [1000, 2000], [2000], [5000]] : [[1000], [250], [100]]
  return {
    second,
    steps: isUnlinked ? [2000] : random.of(steps),
    pause: sometimes(0.5, second === 1 ? 0.1 : 0.02),
    isUnlinked,
    lost: sometimes(0.75, random.next() * 0.4),
    unstored: sometimes(0.3, random.next() * 0.05),
    gone: sometimes(0.4, random.next() * 0.05),
    wireLate: sometimes(0.4, random.pick(100, 3000)),
    storeLate: sometimes(0.4, random.pick(200, 8000)),
    ahead: sometimes(0.35, 0.02),
    back: sometimes(0.15, 0.01),
    isFirstAhead: random.chance(0.05),
    handOver: sometimes(0.3, 0.03),
    longest: sometimes(0.2, 0.02),
    day: sometimes(0.1, 0.01),
    isDouble: random.chance(0.12),
    replay: sometimes(0.2, 0.03),
  }
}

/** How long so many reports of a feed take, about. */
export function expectedLength({ steps, pause }: Habits, size: number): number {
  const step = steps.reduce((sum, each) => sum + each, 0) / steps.length
  return size * (step + pause * 201_000)
}

/** Draws what befalls connections and pages in a world of about this length; in a plain one, outages alone. */
export function drawTroubles(random: Random, isPlain: boolean, length: number): Troubles {
  function spells(probability: number, most: number, lengths: readonly number[]): Spell[] {
    const count = random.chance(probability) ? random.pick(1, most) : 0
    const starts = Array.from({ length: count }, () => Math.floor(random.next() * length))
    let free = 10_000
    return starts
      .sort((one, other) => one - other)
      .map(start => {
        const from = Math.max(free, start)
        const to = from + random.of(lengths)
        free = to + 1000
        return { from, to }
      })
  }
  const outages = spells(0.3, 3, OUTAGES).map(spell => ({
    ...spell,
    // In a plain world the next report still links.
    quiet: random.chance(0.3) ? random.pick(3, isPlain ? 40 : 120) * 1000 : 0,
  }))
  const faults = { fails: 0, isSlow: 0, isShort: 0, isBad: 0 }
  const none = { mutes: [], restAways: [], restarts: [] }
  if (isPlain) return { origins: 1, lags: [], outages, ...none, faults, storeLag: 0 }
  const others = random.chance(0.25) ? random.pick(1, 2) : 0
  const fault = (probability: number): number =>
    random.chance(probability) ? random.next() * 0.3 : 0
  return {
    origins: 1 + others,
    lags: Array.from({ length: others }, () =>
      random.of([
        { ms: random.pick(0, 2000) },
        { reports: random.pick(1, 30) },
        { reports: 200 },
        { reports: 300 },
        { ms: 1_200_000 },
      ]),
    ),
    outages,
    mutes: spells(0.15, 1, [45_000, 120_000, 600_000]),
    restAways: spells(0.15, 2, [3000, 15_000, 120_000]),
    restarts: spells(0.25, 2, [0, 0, 1000, 30_000, 400_000]).map(spell => ({
      ...spell,
      by: random.of(['failure', 'close'] as const),
    })),
    faults: { fails: fault(0.2), isSlow: fault(0.1), isShort: fault(0.2), isBad: fault(0.15) },
    storeLag: random.chance(0.25) ? random.of(STORE_LAGS) : 0,
  }
}

/** What stands out in a feed, in words. */
export function describeHabits(habits: Habits): string {
  const found = Object.entries(habits).filter(([name, value]) => {
    const usual = plain[name as keyof Habits]
    return typeof value !== 'object' && value !== usual
  })
  const facts = found.map(
    ([name, value]) => `${name} ${typeof value === 'number' ? Number(value.toFixed(3)) : value}`,
  )
  return [`steps ${habits.steps.join('/')}`, ...facts].join(', ')
}

/** Milliseconds by which clocks are wrong. */
const CLOCK_ERRORS = [-3_600_000, -60_000, -8000, 8000, 60_000, 3_600_000]

/** Draws what is wrong with clocks in a world of this length: one of them at a time. */
export function drawClocks(random: Random, isPlain: boolean, length: number): WorldClocks {
  const date = random.chance(0.6) ? 0 : undefined
  const right = { error: 0, at: 0, sleep: 0, date }
  if (isPlain || random.chance(0.4)) return right
  const error = random.of(CLOCK_ERRORS)
  const at = random.pick(10_000, Math.max(20_000, length))
  const kind = random.of(['constant', 'step', 'step', 'date'] as const)
  if (kind === 'date') return { ...right, date: error }
  return { ...right, error, at: kind === 'constant' ? 0 : at }
}
