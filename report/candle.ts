import type { ServiceKey } from '../core/scope.js'

/** An interval of candles. It begins at a whole multiple of itself since 1970, in UTC. */
export type CandleInterval =
  | '1s'
  | '5s'
  | '10s'
  | '15s'
  | '30s'
  | '1m'
  | '5m'
  | '15m'
  | '30m'
  | '1h'
  | '4h'
  | '1d'

/** The seconds of each interval, the shortest interval first. */
export const intervalSeconds: Readonly<Record<CandleInterval, number>> = {
  '1s': 1,
  '5s': 5,
  '10s': 10,
  '15s': 15,
  '30s': 30,
  '1m': 60,
  '5m': 300,
  '15m': 900,
  '30m': 1800,
  '1h': 3600,
  '4h': 14_400,
  '1d': 86_400,
}

/** Provided in a client whose streams emit candles. */
export const candlesKey: ServiceKey<true> = { name: 'the candles of streams', id: 'sluice/candles' }

/** A range of time, both ends included, in the feed's unit. */
export interface CandleRange {
  /** The first time. */
  readonly from: number
  /** The last time. */
  readonly to: number
}

/**
 * The prices of a feed in one interval. All prices are exact integers in the scale of the feed.
 *
 * The price of a moment is that of the report whose window holds the moment, as everywhere in this
 * library: of several such reports, that of the earliest observed. So a report counts in each
 * interval that its window touches.
 */
export interface Candle {
  /** In lower case. */
  readonly feedID: string
  /** The length of the interval. */
  readonly interval: CandleInterval
  /** The first time of the interval, in the feed's unit. */
  readonly start: number
  /** The last time of the interval, in the feed's unit. */
  readonly end: number
  /** The price of the earliest moment that a report holds. */
  readonly open: bigint
  /** The highest price. */
  readonly high: bigint
  /** The lowest price. */
  readonly low: bigint
  /** The price of the latest moment that a report holds. */
  readonly close: bigint
  /** The average of the price over the moments that reports hold, rounded towards zero. */
  readonly twap: bigint
  /** How many reports were observed in the interval. */
  readonly count: number
  /**
   * True if reports hold every moment of the interval. Only a report whose window overlaps the
   * windows of others can change the candle.
   */
  readonly complete: boolean
  /** The ranges of the interval that no report holds. Empty if the candle is complete. */
  readonly missing: readonly CandleRange[]
  /** How many of them their network signed later than their time: see `report.signedLater`. */
  readonly signedLater: number
  /**
   * How many reports the candle is made of: those that touch the interval. A candle that is issued
   * again has a higher number.
   */
  readonly revision: number
}

/** The events of a stream whose client makes candles. */
export interface CandleEvents {
  /** A candle has ended, or has changed since. */
  readonly candle: Candle
}
