import { findFeed, knownFeeds } from 'sluice'
import { ValidationError } from 'sluice/core'
import { HTTPError } from 'sluice/internal'
import { type CatalogueSpec, type CatalogueTime, checkCatalogue } from './catalogue-spec.js'
import type { Feed } from './feeds.js'

/** A feed in an answer of the catalogue, as the service writes it. */
export interface CatalogueEntry {
  /** In lower case. The endpoints for reports write `feedID`. */
  readonly feedId: string
  readonly name: string
  readonly assetName: string
  readonly baseAsset: string
  readonly quoteAsset: string
  readonly assetClass: string
  readonly feedType: string
  readonly attributeType: string
  readonly marketHours: string
  readonly schemaVersion: string
  readonly serviceLevel: string
  readonly networkType: string
  readonly status: string
  /** By RFC 3339, with microseconds if the time has a fraction. */
  readonly createdAt: string
  readonly expectedDecommissionAt: string | null
  readonly decommissionedAt: string | null
}

/** The catalogue of an engine. */
export interface EngineCatalogue {
  /** The entry of a feed. Throws if there is no such feed. */
  get(feedID: string): CatalogueEntry
  /** Changes what the catalogue says of a feed, and returns its new entry. */
  set(feedID: string, changes: CatalogueSpec): CatalogueEntry
}

const dayMs = 86_400_000

/** The class, the type, the attribute and the schedule of a feed, by its version. */
const kinds: Readonly<Record<number, readonly [string, string, string, string]>> = {
  2: ['Crypto', 'Crypto', 'CexPrice', 'Crypto'],
  3: ['Crypto', 'Crypto', 'CexPrice', 'Crypto'],
  4: ['Forex', 'Forex', 'ForexPrice', 'Forex'],
  5: ['Macroeconomics', 'Macroeconomics', 'SmartData', 'Crypto'],
  6: ['Crypto', 'Datalink', 'CexPrice', 'Crypto'],
  7: ['Crypto', 'Crypto', 'ExchangeRate', 'Crypto'],
  8: ['Forex', 'Forex', 'ForexPrice', 'Forex'],
  9: ['NAV', 'Net Asset Value', 'NAV', 'Crypto'],
  10: ['Tokenized Asset', 'Tokenized Asset', 'EquityPrice', 'US Equities Regular'],
  11: ['Equities', 'Equities', 'RegularHoursEquityPrice', 'US Equities Regular'],
  12: ['Tokenized Treasuries', 'SmartData', 'NAV', 'Crypto'],
  13: ['Crypto', 'Crypto', 'TopOfBook', 'Crypto'],
  14: ['Commodities', 'Futures', 'SmartData', 'Futures'],
}
/** When feeds were created, if nothing else is said. */
const created = '2025-01-15T09:30:00.120Z'
const mainnet: ReadonlySet<string> = new Set(
  Object.values(knownFeeds.mainnet).map(({ feedID }) => feedID),
)

function formatTime(given: CatalogueTime, now: number): string {
  const date = new Date(typeof given === 'number' ? now + given * dayMs : given)
  const iso = date.toISOString()
  return iso.endsWith('.000Z') ? `${iso.slice(0, -5)}Z` : `${iso.slice(0, -1)}000Z`
}

/** The texts of a feed that a filter of the same name compares. */
const filters: Readonly<Record<string, keyof CatalogueEntry>> = {
  base_asset: 'baseAsset',
  quote_asset: 'quoteAsset',
  asset_class: 'assetClass',
  feed_type: 'feedType',
  attribute_type: 'attributeType',
  status: 'status',
  network_type: 'networkType',
}
const dates: Readonly<Record<string, keyof CatalogueEntry>> = {
  created: 'createdAt',
  expected_decommission: 'expectedDecommissionAt',
  decommissioned: 'decommissionedAt',
}

function parameter(query: URLSearchParams, name: string): string | undefined {
  const values = query.getAll(name)
  if (values.length > 1) throw new HTTPError(400, `parameter ${name} is given more than once`)
  return values[0]
}

/** Reads a day as `YYYY-MM-DD`. */
function dayOf(query: URLSearchParams, name: string): string | undefined {
  const day = parameter(query, name)
  if (day === undefined) return undefined
  const date = new Date(/^\d{4}-\d\d-\d\d$/.test(day) ? `${day}T00:00:00Z` : Number.NaN)
  if (Number.isNaN(date.getTime()) || date.toISOString().slice(0, 10) !== day)
    throw new HTTPError(400, `parameter ${name} is malformed: not a date as YYYY-MM-DD`)
  return day
}

function booleanOf(query: URLSearchParams, name: string): boolean {
  const value = parameter(query, name)?.toLowerCase() ?? 'false'
  if (value !== 'true' && value !== 'false')
    throw new HTTPError(400, `parameter ${name} is malformed: neither true nor false`)
  return value === 'true'
}

/** True if the entry matches every filter of the query. Parameters of other names are ignored. */
function createFilter(query: URLSearchParams): (entry: CatalogueEntry) => boolean {
  const rules: ((entry: CatalogueEntry) => boolean)[] = []
  for (const [name, field] of Object.entries(filters)) {
    const given = parameter(query, name)
    if (given === undefined) continue
    const wanted = new Set(given.split(',').map(each => each.trim().toLowerCase()))
    rules.push(entry => wanted.has(String(entry[field]).toLowerCase()))
  }
  for (const [name, field] of Object.entries(dates)) {
    const after = dayOf(query, `${name}_after`)
    const before = dayOf(query, `${name}_before`)
    if (after === undefined && before === undefined) continue
    // Both ends are exclusive, and a filter has no time of day: the feed's day is compared.
    rules.push(entry => {
      const day = entry[field]?.slice(0, 10)
      if (day === undefined) return false
      return (after === undefined || day > after) && (before === undefined || day < before)
    })
  }
  return entry => rules.every(rule => rule(entry))
}

/** What the catalogue says of every feed of an engine. */
export class Catalogue implements EngineCatalogue {
  readonly #feeds: ReadonlyMap<string, Feed>
  readonly #now: () => number
  readonly #specs = new Map<string, CatalogueSpec>()

  constructor(feeds: ReadonlyMap<string, Feed>, now: () => number) {
    this.#feeds = feeds
    this.#now = now
    for (const { feedID, catalogue } of feeds.values()) this.#keep(feedID, catalogue ?? {})
  }

  get(feedID: string): CatalogueEntry {
    return this.#entry(this.#find('get', feedID))
  }

  set(feedID: string, changes: CatalogueSpec): CatalogueEntry {
    const feed = this.#find('set', feedID)
    const checked = checkCatalogue('catalogue.set', changes)
    this.#keep(feed.feedID, { ...this.#specs.get(feed.feedID), ...checked })
    return this.#entry(feed)
  }

  /** The feeds that match the query, for somebody who has proved the credentials or has not. */
  search(query: URLSearchParams, isAuthorized: boolean): CatalogueEntry[] {
    const matches = createFilter(query)
    const showsHidden = booleanOf(query, 'hidden') && isAuthorized
    return [...this.#feeds.values()].flatMap(feed => {
      const { hidden = false, public: isPublic = true } = this.#specs.get(feed.feedID) ?? {}
      const isListed = hidden
        ? showsHidden && feed.entitled
        : isPublic || (isAuthorized && feed.entitled)
      const entry = this.#entry(feed)
      return isListed && matches(entry) ? [entry] : []
    })
  }

  #find(method: string, feedID: string): Feed {
    const feed = this.#feeds.get(String(feedID).toLowerCase())
    if (feed !== undefined) return feed
    throw new ValidationError(`catalogue.${method}: there is no feed ${feedID}`)
  }

  /** Keeps a spec. Days from now become dates, so that they don't move with the clock. */
  #keep(feedID: string, spec: CatalogueSpec): void {
    const kept: Record<string, unknown> = { ...spec }
    for (const field of Object.values(dates)) {
      const given = spec[field as 'createdAt']
      if (typeof given === 'number') kept[field] = formatTime(given, this.#now())
    }
    this.#specs.set(feedID, kept as CatalogueSpec)
  }

  #entry({ feedID, version, twapOf }: Feed): CatalogueEntry {
    const spec = this.#specs.get(feedID) ?? {}
    const source = twapOf && this.#feeds.get(twapOf.feedID)
    const underlying = source && this.#entry(source)
    const [assetClass, feedType, attributeType, marketHours] = kinds[version] ?? kinds[3] ?? []
    const [knownBase, knownQuote] = findFeed(feedID)?.name.split('/') ?? []
    const baseAsset =
      spec.baseAsset ??
      underlying?.baseAsset ??
      knownBase ??
      `T${feedID.slice(6, 10).toUpperCase()}`
    const quoteAsset = spec.quoteAsset ?? underlying?.quoteAsset ?? knownQuote ?? 'USD'
    const at = (given: CatalogueTime | null | undefined): string | null =>
      given == null ? null : formatTime(given, this.#now())
    const window = twapOf === undefined ? '' : `-Streams-TWAP-${twapOf.window}s`
    return {
      feedId: feedID,
      name: spec.name ?? `${baseAsset}/${quoteAsset}${window}`,
      assetName: spec.assetName ?? underlying?.assetName ?? baseAsset,
      baseAsset,
      quoteAsset,
      assetClass: spec.assetClass ?? underlying?.assetClass ?? String(assetClass),
      feedType: spec.feedType ?? underlying?.feedType ?? String(feedType),
      attributeType: spec.attributeType ?? underlying?.attributeType ?? String(attributeType),
      marketHours: spec.marketHours ?? underlying?.marketHours ?? String(marketHours),
      schemaVersion: spec.schemaVersion ?? `V${version}`,
      serviceLevel: spec.serviceLevel ?? 'Streams',
      networkType: spec.networkType ?? (mainnet.has(feedID) ? 'mainnet' : 'testnet'),
      status: spec.status ?? 'live',
      createdAt: at(spec.createdAt ?? created) as string,
      expectedDecommissionAt: at(spec.expectedDecommissionAt),
      decommissionedAt: at(spec.decommissionedAt),
    }
  }
}
