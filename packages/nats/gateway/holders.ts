import { number, optional, ValidationError } from 'sluice/core'
import { HTTPError } from 'sluice/internal'
import { feedResolution, parseFeedID } from 'sluice/report'

/** What the holder of a token may do. */
export interface Entitlements {
  /** The ids of the feeds that the holder may read. @default all feeds */
  readonly feedIDs?: readonly string[]
  /**
   * How many requests per second the holder may send. Requests of one second may come at once.
   * @default no limit
   */
  readonly requestsPerSecond?: number
  /** How many seconds ago the time of a request may be. @default no limit */
  readonly maxQueryAge?: number
  /** How many streams the holder may have. @default limits.connectionsPerToken */
  readonly connections?: number
}

/** Entitlements that were checked. */
export interface CheckedEntry {
  readonly feedIDs?: ReadonlySet<string>
  readonly requestsPerSecond?: number
  readonly maxQueryAge?: number
  readonly connections?: number
  /** In Unix milliseconds. */
  readonly expires?: number
}

/** The checks of entitlements and of `expires`. */
export const entitlementsSchema: {
  readonly [Name in keyof CheckedEntry]-?: (
    field: string,
    value: unknown,
  ) => CheckedEntry[Name] | undefined
} = {
  feedIDs: optional(checkFeedList),
  requestsPerSecond: optional(number({ min: 0.001 })),
  maxQueryAge: optional(number({ min: 0 })),
  connections: optional(number({ min: 0, whole: true })),
  expires: optional(checkExpiry),
}

/** The holder of a token, and what the holder may do. */
export interface Holder extends CheckedEntry {
  readonly name: string
  /** The SHA-256 of the token, in hexadecimal digits. */
  readonly digest: string
  /** In Unix milliseconds; infinite if the token does not expire. */
  readonly expires: number
  /**
   * What the holder may do now; undefined if its token is not valid any more. It is there if the
   * token was not in the object or the file of tokens.
   */
  readonly current?: () => Holder | undefined
}

/** Makes the holder of a token of a checked entry. */
export function holderOf(name: string, digest: string, entry: CheckedEntry): Holder {
  return { expires: Number.POSITIVE_INFINITY, ...entry, name, digest }
}

/** Checks a holder's name. It is in log lines, so it must be short and of one line. */
export function checkHolderName(field: string, value: unknown): string {
  if (typeof value !== 'string' || !/^[\w.@|:-]{1,128}$/.test(value))
    throw new ValidationError(`${field} must be 1 to 128 letters, digits, _, ., @, |, : and -`)
  return value
}

/** Throws HTTPError if the holder may not read one of the feeds. */
export function checkFeedsOf({ feedIDs: own }: Holder, feedIDs: readonly string[]): void {
  const other = own && feedIDs.find(feedID => !own.has(feedID))
  if (other !== undefined) throw new HTTPError(403, `the token has no access to feed ${other}`)
}

/** Throws HTTPError if the time of a request is too old for the holder. */
export function checkAge(
  { maxQueryAge }: Holder,
  field: string,
  feedID: string,
  time: number,
): void {
  if (maxQueryAge === undefined) return
  const milliseconds = feedResolution(feedID) === 's' ? 1000 * time : time
  if (milliseconds < Date.now() - 1000 * maxQueryAge)
    throw new HTTPError(403, `${field} must be at most ${maxQueryAge} seconds ago for the token`)
}

/** How many holders a record of their requests is kept of, before old records are removed. */
const MAX_RATES = 1000

/** Counts the requests of holders, and rejects those above `requestsPerSecond`. */
export class Rates {
  /** By the names of holders: when the requests so far are within the rate, in milliseconds. */
  readonly #paidUntil = new Map<string, number>()
  #sweepAt = MAX_RATES

  /** Throws HTTPError if the holder sends too many requests. */
  check({ name, requestsPerSecond }: Holder): void {
    if (requestsPerSecond === undefined) return
    const now = performance.now()
    const interval = 1000 / requestsPerSecond
    const until = Math.max(now, this.#paidUntil.get(name) ?? 0) + interval
    // Requests of one second may come at once, and one request always may.
    const early = until - now - Math.max(1000, interval)
    if (early > 1e-6)
      throw new HTTPError(
        429,
        `the token has ${requestsPerSecond} requests per second`,
        undefined,
        {
          'retry-after': String(Math.ceil(early / 1000)),
        },
      )
    this.#paidUntil.set(name, until)
    if (this.#paidUntil.size > this.#sweepAt) this.#sweep(now)
  }

  #sweep(now: number): void {
    for (const [name, until] of this.#paidUntil) if (until < now) this.#paidUntil.delete(name)
    this.#sweepAt = Math.max(MAX_RATES, 2 * this.#paidUntil.size)
  }
}

function checkFeedList(field: string, value: unknown): ReadonlySet<string> {
  if (!Array.isArray(value)) throw new ValidationError(`${field} must be a list of feed ids`)
  return new Set(value.map((feedID, at) => checkFeed(`${field}[${at}]`, feedID)))
}

function checkFeed(field: string, value: unknown): string {
  try {
    return parseFeedID(value)
  } catch {
    throw new ValidationError(`${field} must be 0x and 64 hexadecimal digits`)
  }
}

function checkExpiry(field: string, value: unknown): number {
  const isDate = typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)
  const time = isDate ? Date.parse(value) : Number.NaN
  if (Number.isNaN(time))
    throw new ValidationError(`${field} must be a time such as 2027-01-31T00:00:00Z`)
  return time
}
