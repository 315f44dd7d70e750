import type { Report } from './report.js'

/** An interval in which reports of a feed are missing for good. It includes both ends; times are in the feed's unit. */
export interface Gap {
  /** In lower case. */
  readonly feedID: string
  /** The earliest time that is missing. */
  readonly from: number
  /** The latest time that is missing. */
  readonly to: number
  /** Why they are missing. */
  readonly cause: GapCause
}

/**
 * Why reports are missing. `upstream`: the service has none. `unavailable`: requests for them failed. `backfill-limit`: they are
 * older than `maxBackfill` allows, or the feed has more missing ranges than are remembered. `overflow`: your program was too slow.
 */
export type GapCause = 'upstream' | 'unavailable' | 'backfill-limit' | 'overflow'

/** A report came after its gap was announced. */
export interface GapFilled<out Data = unknown> {
  /** The gap as it was announced; more of it may be missing. */
  readonly gap: Gap
  /** The report that lay in it. */
  readonly report: Report<Data>
}
