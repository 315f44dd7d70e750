import {
  checkBoolean,
  checkText,
  optional,
  type Rule,
  readOptions,
  type Schema,
  ValidationError,
} from 'sluice/core'

/**
 * A date in the catalogue: a `Date`, a text that `Date` reads, or the number of days from the time
 * at which it is set.
 */
export type CatalogueTime = Date | string | number

/** How the catalogue describes a feed. A field that is left out has a plausible value. */
export interface CatalogueSpec {
  /** @default the name of a well-known feed, or a made one */
  readonly name?: string
  readonly assetName?: string
  readonly baseAsset?: string
  readonly quoteAsset?: string
  /** @default by the version: `Crypto` for V3 */
  readonly assetClass?: string
  /** @default by the version: `Crypto` for V3 */
  readonly feedType?: string
  /** @default by the version: `CexPrice` for V3 */
  readonly attributeType?: string
  /** The name of a schedule. @default by the version: `Crypto` for V3 */
  readonly marketHours?: string
  /** @default Streams */
  readonly serviceLevel?: string
  /** @default the version of the id: `V3` */
  readonly schemaVersion?: string
  /** @default mainnet for a well-known feed of mainnet, otherwise testnet */
  readonly networkType?: string
  /** @default live */
  readonly status?: string
  /**
   * Whether the catalogue lists the feed only for credentials that may read it, and only if the
   * request asks for hidden feeds. @default false
   */
  readonly hidden?: boolean
  /**
   * Whether the catalogue lists the feed without credentials. If not, it lists the feed only for
   * credentials that may read it. @default true
   */
  readonly public?: boolean
  /** @default a fixed time in 2025 */
  readonly createdAt?: CatalogueTime
  /** When the feed is going to retire. @default null: never */
  readonly expectedDecommissionAt?: CatalogueTime | null
  /** When the feed retired. @default null: it has not retired */
  readonly decommissionedAt?: CatalogueTime | null
}

const time: Rule<CatalogueTime | undefined> = optional((field, value) => {
  const given = value as CatalogueTime
  const isTime = given instanceof Date || typeof given === 'string' || typeof given === 'number'
  const shown = typeof given === 'number' ? given : new Date(given as string).getTime()
  if (!isTime || !Number.isFinite(shown))
    throw new ValidationError(`${field} must be a date, or a number of days from now`)
  return given
})
const nullableTime: Rule<CatalogueTime | null | undefined> = (field, value) =>
  value === null ? null : time(field, value)

const text = optional(checkText)
const schema = {
  name: text,
  assetName: text,
  baseAsset: text,
  quoteAsset: text,
  assetClass: text,
  feedType: text,
  attributeType: text,
  marketHours: text,
  serviceLevel: text,
  schemaVersion: text,
  networkType: text,
  status: text,
  hidden: optional(checkBoolean),
  public: optional(checkBoolean),
  createdAt: time,
  expectedDecommissionAt: nullableTime,
  decommissionedAt: nullableTime,
} satisfies Schema<CatalogueSpec>

/** Checks what a feed's `catalogue` says. */
export function checkCatalogue(where: string, spec: CatalogueSpec | undefined): CatalogueSpec {
  return readOptions(where, spec, schema, `${where}: `) as CatalogueSpec
}
