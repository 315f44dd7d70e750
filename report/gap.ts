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
 * Why reports are missing: the service has none (`upstream`), they could not be fetched (`unavailable`), they are too many
 * or too old to be fetched (`bound`), or you did not take them in time (`overflow`).
 */
export type GapCause = 'upstream' | 'unavailable' | 'bound' | 'overflow'

/** A report came after its gap was announced. */
export interface GapFilled<out Data = unknown> {
  /** The gap as it was announced; more of it may be missing. */
  readonly gap: Gap
  /** The report that lay in it. */
  readonly report: Report<Data>
}
