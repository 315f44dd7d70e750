/** Sequences of genuine reports, and what comes of them. */
import type { Config, ContinuityOptions, Gap, Stream, StreamOptions } from '../../../index.js'
import type { Service } from '../service/service.js'

/** A report as the network made it. Times are in the feed's unit, from the start of the sequence. */
export interface Given {
  readonly at: number
  /** When it began to hold. @default one after the report before it of the same network, whose clock was right */
  readonly from?: number
  /** `lost` was neither stored nor sent. @default both */
  readonly way?: 'both' | 'stored' | 'sent' | 'lost'
  /** Its clock was wrong: it may come at any place in sorted order. */
  readonly isWrong?: boolean
  /** Nobody could know of it, so it may be delivered or not. */
  readonly isOptional?: boolean
  /** Which network made it. @default 0 */
  readonly network?: number
  readonly price?: bigint
  readonly storeAfter?: number
  readonly sendAfter?: number
  /** The origins that send it. @default all */
  readonly to?: readonly string[]
}

/** Does something to the service or the client; `base` is the start of the sequence, in the feed's unit. */
export type Act = (world: World, feed: string, base: number) => unknown

/** A report, a pause in milliseconds, or an act. */
export type Move = Given | number | Act

/** A gap that a sequence expects; its times are as those of the reports. */
export type ExpectedGap = readonly [from: number, to: number, cause: Gap['cause']]

/** How a sequence is played. */
export interface Variant {
  readonly order: 'arrival' | 'sorted'
  readonly outage: boolean
}

export interface Sequence {
  readonly name: string
  readonly before: readonly Move[]
  /** What an outage falls upon, if there is one. */
  readonly meanwhile?: readonly Move[]
  readonly after?: readonly Move[]
  /** @default seconds */
  readonly feed?: 'seconds' | 'milliseconds' | 'blocks'
  /** Milliseconds between two reports. @default 15 */
  readonly pace?: number
  /** In the order of their times. `empty`: a gap may be announced where no report was made. @default none */
  readonly gaps?:
    | readonly ExpectedGap[]
    | 'empty'
    | 'any'
    | ((variant: Variant) => readonly ExpectedGap[])
  /** The most requests for pages: without an outage, and with one. */
  readonly pages: readonly [without: number, withOutage: number]
  /** Reports that may come at any place in sorted order: the fetched ones, or those of some times. */
  readonly unordered?: 'fetched' | readonly number[] | undefined
  /** @default 0 */
  readonly conflicts?: number
  /** Whether other errors than those of connections may be emitted. @default false */
  readonly hasErrors?: boolean
  /** Whether reports may be lost, since the user closes the stream. @default false */
  readonly isClosed?: boolean
  readonly check?: (outcome: Outcome) => void
}

/** Sequences that share a service, a feed each, and the options of their client. */
export interface Group {
  readonly sequences: readonly Sequence[]
  readonly continuity?: Omit<ContinuityOptions, 'order'>
  readonly stream?: StreamOptions
  readonly config?: Partial<Config>
  readonly origins?: readonly string[]
  /** Milliseconds after the last report until the outcome is looked at: the last look is after 10 s. @default 12500 */
  readonly settle?: number
}

/** What the client emitted for a feed, in its order. */
export type Emitted =
  | { readonly type: 'report'; readonly at: number; readonly source: string }
  | {
      readonly type: 'gap'
      readonly from: number
      readonly to: number
      readonly cause: Gap['cause']
    }
  | { readonly type: 'gap-filled'; readonly at: number; readonly from: number; readonly to: number }
  | { readonly type: 'conflict'; readonly at: number }

/** A report of a sequence, published. */
export interface Published {
  readonly given: Given
  /** Whether the client must deliver it or announce it. */
  readonly isDue: boolean
}

/** A service with a client, while sequences are played. */
export interface World {
  readonly variant: Variant
  readonly service: Service
  readonly stream: Stream
  readonly close: () => Promise<void>
}

export interface Outcome extends Pick<World, 'variant' | 'service'> {
  readonly feed: string
  readonly published: readonly Published[]
  readonly emitted: readonly Emitted[]
  /** Of the times of the reports. */
  readonly delivered: readonly number[]
  readonly errors: readonly Error[]
  readonly metrics: ReturnType<Stream['getMetrics']>
  /** The requests for pages: when, and from which time on. */
  readonly pages: readonly string[]
  /** What came after the stream was closed. */
  readonly afterClose: readonly string[]
}

/** Reports from one time to another, each holding from the one before it. */
export const line = (first: number, last: number, step = 2): Given[] =>
  Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, index) => ({
    at: first + index * step,
  }))

/** The same reports, but those of some times with something of their own. */
export const but = (
  moves: readonly Given[],
  times: readonly number[],
  more: Partial<Given>,
): Given[] => moves.map(move => (times.includes(move.at) ? { ...move, ...more } : move))
