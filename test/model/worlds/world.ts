// What happens in a world: which reports its networks make, what becomes of them, and what connections and pages do.
import type { ContinuityOptions } from '../../../index.js'
import { makeRecord } from '../signed-report.js'

/** One report of a network, and when the service has it. */
export interface Observation {
  /** The index of its feed. */
  readonly feed: number
  readonly from: number
  readonly to: number
  readonly digest: number
  readonly fullReport: string
  /** When it was published, as all times of a world: milliseconds since its start. */
  readonly at: number
  /** When the service has stored it. */
  readonly storedAt: number | undefined
}

/** A feed of a world. */
export interface WorldFeed {
  readonly feedID: string
  /** How much of its unit is in a second. */
  readonly second: 1 | 1000
  /** In the order in which they were published. */
  readonly observations: readonly Observation[]
}

/** What happens at a time, whoever is connected. */
export type WorldEvent = { readonly at: number } & (
  | { readonly type: 'report'; readonly observation: Observation; readonly origin: number }
  | { readonly type: 'down' | 'up'; readonly origin: number }
  /** The connection brings nothing more; nor do those that are opened after it, where that is for good. */
  | { readonly type: 'mute'; readonly origin: number; readonly isForGood?: boolean }
  | { readonly type: 'rest-away' | 'rest-back' }
  /** The stream ends, and another one with its cursors begins after some milliseconds. */
  | { readonly type: 'restart'; readonly by: 'failure' | 'close'; readonly after: number }
)

/** What is wrong with the clock of the client's machine, and with the dates of answers. */
export interface WorldClocks {
  /** Milliseconds by which the machine's clock is ahead, from `at` on. */
  readonly error: number
  readonly at: number
  /** Milliseconds that the machine sleeps at `at`: the monotonic clock stands still. */
  readonly sleep: number
  /** Milliseconds by which the dates of answers are ahead; undefined where they have none. */
  readonly date: number | undefined
}

/** What may be wrong with pages, each by chance. */
export interface PageFaults {
  readonly fails: number
  readonly isSlow: number
  readonly isShort: number
  /** One of its reports is older than asked, of another feed, or repeated. */
  readonly isBad: number
}

/** All that happens, and what is known of it beforehand. */
export interface World {
  /** For the faults of pages. */
  readonly seed: number
  readonly continuity: ContinuityOptions
  readonly feeds: readonly WorldFeed[]
  readonly origins: number
  /** In the order of their times. */
  readonly events: readonly WorldEvent[]
  readonly faults: PageFaults
  readonly clocks: WorldClocks
  /** Milliseconds. @default 30000 */
  readonly staleAfter?: number
  /** Changes a page before it is sent, where that is wanted. */
  readonly changePage?: (page: Observation[]) => Observation[]
  /** How the last stream ends. */
  readonly ends: 'failure' | 'close'
  /** What is in it, in words. */
  readonly traits: readonly string[]
  /** Reports are lost or late, connections end, and nothing else: all that is missing is certain, and found in time. */
  readonly isPlain: boolean
}

/** What becomes of a report. */
export interface Fate {
  /** Milliseconds after which the service has it; never where it is undefined. */
  readonly storedAfter: number | undefined
  /** The origins that send it, each with the milliseconds that it takes. */
  readonly sent: readonly { readonly origin: number; readonly after: number }[]
}

/** A report as its network makes it. */
export interface Made {
  readonly from: number
  readonly to: number
  readonly digest?: number
  /** What it says, in its blob. */
  readonly value?: number
}

/** Puts a world together. */
export interface WorldBuilder {
  /** Publishes a report of a feed. */
  publish(feed: number, at: number, made: Made, fate: Fate): Observation
  /** Adds another event, in any order. */
  happen(event: WorldEvent): void
  /** When the last event has happened, and the last report is stored. */
  readonly lastAt: number
  build(facts: Partial<Omit<World, 'feeds' | 'events'>>): World
}

/** The Unix time at which a world starts, in milliseconds: that of virtual time. */
export const START = 1_700_000_000_000

/** Milliseconds after the last event after which nothing is open any more. */
export const SETTLED = 130_000

/** The id of a feed of a world. */
export function feedIDOf(index: number, second: 1 | 1000): string {
  const digits = (index + 10).toString(16).padStart(2, '0')
  return `${second === 1 ? '0x0003' : '0x1003'}${digits.repeat(30)}`
}

/** A builder of a world with feeds of these units, or these ids in seconds. */
export function createWorldBuilder(units: readonly (1 | 1000 | string)[]): WorldBuilder {
  const feeds = units.map((unit, index) => {
    const second = unit === 1000 ? 1000 : 1
    const feedID = typeof unit === 'string' ? unit : feedIDOf(index, second)
    return { feedID, second, observations: [] as Observation[] } as const
  })
  const events: WorldEvent[] = []
  let lastAt = 0

  function happen(event: WorldEvent): void {
    events.push(event)
    lastAt = Math.max(lastAt, event.at + (event.type === 'restart' ? event.after : 0))
  }

  return {
    get lastAt() {
      return lastAt
    },
    happen,
    publish(feed, at, { from, to, digest = 0, value = 42 }, { storedAfter, sent }) {
      const { feedID, observations } = feeds[feed] as (typeof feeds)[number]
      const { fullReport } = makeRecord(feedID, from, to, { digest, value })
      const storedAt = storedAfter === undefined ? undefined : at + storedAfter
      const observation: Observation = { feed, from, to, digest, fullReport, at, storedAt }
      observations.push(observation)
      lastAt = Math.max(lastAt, storedAt ?? at)
      for (const { origin, after } of sent)
        happen({ at: at + after, type: 'report', observation, origin })
      return observation
    },
    build: facts => ({
      seed: 1,
      continuity: {},
      origins: 1,
      faults: { fails: 0, isSlow: 0, isShort: 0, isBad: 0 },
      clocks: { error: 0, at: 0, sleep: 0, date: undefined },
      ends: 'close',
      traits: [],
      isPlain: false,
      ...facts,
      feeds,
      // Sorting is stable: what happens at one time happens in the order in which it was added.
      events: events.sort((one, other) => one.at - other.at),
    }),
  }
}

/** An observation that says something else. */
export function remade(observation: Observation, facts: Partial<Made>): Observation {
  const { from, to, digest, value } = { ...observation, ...facts }
  const feedID = `0x${observation.fullReport.slice(2 + 8 * 64, 2 + 9 * 64)}`
  const { fullReport } = makeRecord(
    feedID,
    from,
    to,
    value === undefined ? { digest } : { digest, value },
  )
  return { ...observation, from, to, digest, fullReport }
}
