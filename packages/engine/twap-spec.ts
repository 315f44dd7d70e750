import {
  checkNumber,
  oneOf,
  readOptions,
  type Schema,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { isFeedID } from 'sluice/report'

/** What the service does not publish about its averages. */
export interface TWAPRules {
  /**
   * Which end of the window does not belong to it. With `start`, a window of 30 s that ends at 100
   * has the seconds 71 to 100; with `end`, 70 to 99. @default start
   */
  readonly openEnd?: 'start' | 'end'
  /**
   * How a report counts that begins before the window: with the part inside the window, or with its
   * whole width. @default clip
   */
  readonly straddling?: 'clip' | 'whole'
}

/** Of which feed, and over how many seconds, a feed of V2 publishes the average. */
export interface TWAPSpec extends TWAPRules {
  /** The feed whose price is averaged. Its reports have the same time unit. */
  readonly feedID: string
  /** The length of the window, in seconds. The service has 30 and 60. */
  readonly window: number
}

const schema = {
  feedID(field: string, value: unknown): string {
    if (isFeedID(value)) return value.toLowerCase()
    throw new ValidationError(`${field} must be 0x and 64 hex digits`)
  },
  window: (field: string, value: unknown) => checkNumber(field, value, { min: 1, whole: true }),
  openEnd: withDefault('start' as const, oneOf('start', 'end')),
  straddling: withDefault('clip' as const, oneOf('clip', 'whole')),
} satisfies Schema<TWAPSpec>

/** Checks the option `twapOf` of a feed. */
export function checkTWAP(where: string, spec: TWAPSpec): Required<TWAPSpec> {
  return readOptions(where, spec, schema, `${where}: `)
}
