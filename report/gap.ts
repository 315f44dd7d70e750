import type { Report } from './report.js'

/** An interval in which reports of a feed are missing for good. It includes both ends; times are in the feed's unit. */
export interface Gap {
  readonly feedID: string
  readonly from: number
  readonly to: number
  readonly cause: GapCause
}

/**
 * Why reports are missing: the service has none (`upstream`), they could not be fetched (`unavailable`), they are too many
 * or too old to be fetched (`bound`), or you did not take them in time (`overflow`).
 */
export type GapCause = 'upstream' | 'unavailable' | 'bound' | 'overflow'

/** A report came after its gap was announced. */
export interface GapFilled<out Data = unknown> {
  readonly gap: Gap
  readonly report: Report<Data>
}
