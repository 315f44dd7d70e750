/**
 * Whether a market is open, in reports of versions 4, 8, 10 and 14. Never infer it from timestamps.
 */
export const MarketStatus: {
  /** The status is unknown. */
  readonly UNKNOWN: 0
  /** The market is closed. */
  readonly CLOSED: 1
  /** The market is open. */
  readonly OPEN: 2
} = Object.freeze({
  UNKNOWN: 0,
  CLOSED: 1,
  OPEN: 2,
})
/** Whether a market is open. A report may also have a value that has no name here yet. */
export type MarketStatus = (typeof MarketStatus)[keyof typeof MarketStatus] | (number & {})

/** The session of a market with extended hours, in reports of version 11. */
export const ExtendedMarketStatus: {
  /** The status is unknown. */
  readonly UNKNOWN: 0
  /** Before the regular session. */
  readonly PRE_MARKET: 1
  /** The regular session. */
  readonly REGULAR: 2
  /** After the regular session. */
  readonly POST_MARKET: 3
  /** The overnight session. */
  readonly OVERNIGHT: 4
  /** The market is closed, as on weekends. */
  readonly CLOSED: 5
} = Object.freeze({
  UNKNOWN: 0,
  PRE_MARKET: 1,
  REGULAR: 2,
  POST_MARKET: 3,
  OVERNIGHT: 4,
  CLOSED: 5,
})
/**
 * The session of a market with extended hours. A report may also have a value that has no name here
 * yet.
 */
export type ExtendedMarketStatus =
  | (typeof ExtendedMarketStatus)[keyof typeof ExtendedMarketStatus]
  | (number & {})

/** Whether the values of a report may be used, in reports of versions 9 and 12. */
export const Ripcord: {
  /** The values may be used. */
  readonly NORMAL: 0
  /** The values must not be used. */
  readonly PAUSED: 1
} = Object.freeze({
  NORMAL: 0,
  PAUSED: 1,
})
/**
 * Whether the values of a report may be used. They may be used only if this is `Ripcord.NORMAL`.
 */
export type Ripcord = (typeof Ripcord)[keyof typeof Ripcord] | (number & {})
