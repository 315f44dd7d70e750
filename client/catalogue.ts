/** A date of a filter: a `Date`, whose UTC day counts, or `YYYY-MM-DD`. */
export type CatalogueDate = Date | string

/** One text, or a list of texts of which a feed has to match one. Case does not matter. */
export type CatalogueText = string | readonly string[]

/**
 * Filters of `discover`. A feed has to match all of them. The values of texts are open: the service
 * adds new ones without a new version of its interface, and answers an unknown one with no feeds.
 */
export interface CatalogueFilters {
  /** The priced asset: `ETH`. */
  readonly baseAsset?: CatalogueText
  /** The asset of the price: `USD`. */
  readonly quoteAsset?: CatalogueText
  /** The class of the asset: `Crypto`, `Equities`, `Forex`, `Macroeconomics`, `NAV` … */
  readonly assetClass?: CatalogueText
  /** The type of the feed: `Crypto`, `Crypto-DEX`, `Equities`, `Net Asset Value` … */
  readonly feedType?: CatalogueText
  /** What the feed says: `CexPrice`, `RegularHoursEquityPrice`, `NAV`, `TopOfBook` … */
  readonly attributeType?: CatalogueText
  /** `live` or `testing`. @default both: the service lists feeds in testing as well */
  readonly status?: CatalogueText
  /** `mainnet` or `testnet`. @default the service's own choice */
  readonly networkType?: CatalogueText
  /** Also lists the hidden feeds that your credentials may read. @default false */
  readonly hidden?: boolean
  /** Feeds that were created after this day. */
  readonly createdAfter?: CatalogueDate
  /** Feeds that were created before this day. */
  readonly createdBefore?: CatalogueDate
  /** Feeds that are going to retire after this day. */
  readonly expectedDecommissionAfter?: CatalogueDate
  /** Feeds that are going to retire before this day. */
  readonly expectedDecommissionBefore?: CatalogueDate
  /** Feeds that retired after this day. */
  readonly decommissionedAfter?: CatalogueDate
  /** Feeds that retired before this day. */
  readonly decommissionedBefore?: CatalogueDate
  /** Asks the service even if an answer is kept that is not five minutes old. @default false */
  readonly refresh?: boolean
  /** Aborting it ends the request. It rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

/** A feed in the service's catalogue. A field that the service leaves out is undefined. */
export interface CatalogueFeed {
  /** The id, in lower case. The service writes it as `feedId`. */
  readonly feedID: string
  /** The name: `ETH/USD`, or `ACME/USD-Streams-OvernightHoursEquityPrice`. */
  readonly name?: string
  /** The name of the priced asset: `Ethereum`. */
  readonly assetName?: string
  /** The priced asset: `ETH`. */
  readonly baseAsset?: string
  /** The asset of the price: `USD`. */
  readonly quoteAsset?: string
  /** The class of the asset: `Crypto`. */
  readonly assetClass?: string
  /** The type of the feed: `Crypto`. */
  readonly feedType?: string
  /** What the feed says: `CexPrice`. */
  readonly attributeType?: string
  /** The name of the schedule: `US Equities Regular`. It has no times. */
  readonly marketHours?: string
  /** The service level: `Streams`. */
  readonly serviceLevel?: string
  /** The version of the reports: `V3`. */
  readonly schemaVersion?: string
  /** `mainnet` or `testnet`. */
  readonly networkType?: string
  /** `live` or `testing`. */
  readonly status?: string
  /** When the feed was created. */
  readonly createdAt?: Date
  /** When the feed is going to retire. */
  readonly expectedDecommissionAt?: Date
  /** When the feed retired. */
  readonly decommissionedAt?: Date
}

/** The feeds that match the filters, and how old the answer is. */
export type Catalogue = readonly CatalogueFeed[] & {
  /** When the service answered, by this machine's clock. */
  readonly fetchedAt: Date
  /** Milliseconds since the service answered. */
  readonly age: number
  /**
   * True if the service did not answer this request, so that the last answer stands in for it. It
   * is older than the service allows, or you asked for a new answer by `refresh`.
   */
  readonly isStale: boolean
}

/** The texts of a feed in the catalogue. */
export const catalogueTexts = [
  'name',
  'assetName',
  'baseAsset',
  'quoteAsset',
  'assetClass',
  'feedType',
  'attributeType',
  'marketHours',
  'serviceLevel',
  'schemaVersion',
  'networkType',
  'status',
] as const

/** The dates of a feed in the catalogue. */
export const catalogueDates = ['createdAt', 'expectedDecommissionAt', 'decommissionedAt'] as const
