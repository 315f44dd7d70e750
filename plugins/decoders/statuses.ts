/** Whether a market is open, in reports of versions 4, 8, 10 and 14. Never infer it from timestamps. */
export const MarketStatus: { readonly UNKNOWN: 0; readonly CLOSED: 1; readonly OPEN: 2 } =
  Object.freeze({
    UNKNOWN: 0,
    CLOSED: 1,
    OPEN: 2,
  })
/** Whether a market is open. Values that have no name yet are possible. */
export type MarketStatus = (typeof MarketStatus)[keyof typeof MarketStatus] | (number & {})

/** The session of a market with extended hours, in reports of version 11. */
export const ExtendedMarketStatus: {
  readonly UNKNOWN: 0
  readonly PRE_MARKET: 1
  readonly REGULAR: 2
  readonly POST_MARKET: 3
  readonly OVERNIGHT: 4
  readonly CLOSED: 5
} = Object.freeze({
  UNKNOWN: 0,
  PRE_MARKET: 1,
  REGULAR: 2,
  POST_MARKET: 3,
  OVERNIGHT: 4,
  CLOSED: 5,
})
/** The session of a market with extended hours. Values that have no name yet are possible. */
export type ExtendedMarketStatus =
  | (typeof ExtendedMarketStatus)[keyof typeof ExtendedMarketStatus]
  | (number & {})

/** Whether the values of a report may be used, in reports of versions 9 and 12. */
export const Ripcord: { readonly NORMAL: 0; readonly PAUSED: 1 } = Object.freeze({
  NORMAL: 0,
  PAUSED: 1,
})
/** Whether the values of a report may be used: only when it is `Ripcord.NORMAL`. */
export type Ripcord = (typeof Ripcord)[keyof typeof Ripcord] | (number & {})
