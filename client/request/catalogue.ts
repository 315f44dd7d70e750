import { BoundedMap } from '../../core/bounded-map.js'
import { isStreamsError, ValidationError } from '../../core/errors.js'
import {
  checkBoolean,
  checkSignal,
  kindOf,
  optional,
  type Rule,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { isFeedID } from '../../report/feed-id.js'
import {
  type Catalogue,
  type CatalogueDate,
  type CatalogueFeed,
  type CatalogueFilters,
  type CatalogueText,
  catalogueDates,
  catalogueTexts,
} from '../catalogue.js'
import { type Answer, invalidResponse, readList } from './answer.js'

/** Milliseconds for which an answer is kept if the service does not say how long it may be kept. */
const KEPT_FOR = 300_000
/** The most answers that are kept, each for other filters. */
const MOST_ANSWERS = 32

const text: Rule<CatalogueText | undefined> = optional((field, value) => {
  const texts = typeof value === 'string' ? [value] : value
  if (!Array.isArray(texts) || texts.length === 0)
    throw new ValidationError(
      `${field} must be a text or a list of at least one text, not ${kindOf(value)}`,
    )
  for (const each of texts as readonly unknown[]) {
    if (typeof each !== 'string' || each.trim() === '')
      throw new ValidationError(`${field} must have no empty text and nothing but texts`)
    if (/\p{Surrogate}/u.test(each))
      throw new ValidationError(`${field} must have no half of a surrogate pair: it is no text`)
    // The service separates the texts of a list by commas.
    if (each.includes(','))
      throw new ValidationError(`${field} must be a list of texts, and no text with a comma`)
  }
  return texts as readonly string[]
})

/** A day as `YYYY-MM-DD`. */
const day: Rule<CatalogueDate | undefined> = optional((field, value) => {
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new ValidationError(`${field} must be a valid date`)
    return checkDay(field, value.toISOString().slice(0, 10))
  }
  return checkDay(field, value)
})

function checkDay(field: string, value: unknown): string {
  const shown = typeof value === 'string' ? JSON.stringify(value.slice(0, 40)) : kindOf(value)
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(value))
    throw new ValidationError(`${field} must be a Date or a day as YYYY-MM-DD, not ${shown}`)
  const date = new Date(`${value}T00:00:00Z`)
  // The calendar has no year 0.
  const isDay = !Number.isNaN(date.getTime()) && date.toISOString().slice(0, 10) === value
  if (!isDay || value < '0001')
    throw new ValidationError(`${field} must be a day of the calendar: ${value} is none`)
  return value
}

const schema = {
  baseAsset: text,
  quoteAsset: text,
  assetClass: text,
  feedType: text,
  attributeType: text,
  status: text,
  networkType: text,
  hidden: optional(checkBoolean),
  createdAfter: day,
  createdBefore: day,
  expectedDecommissionAfter: day,
  expectedDecommissionBefore: day,
  decommissionedAfter: day,
  decommissionedBefore: day,
  refresh: withDefault(false, checkBoolean),
  signal: checkSignal,
} satisfies Schema<CatalogueFilters>

/** Path and query of the request for the feeds that match the filters. */
export function cataloguePath(filters: CatalogueFilters | undefined): {
  readonly path: string
  readonly refresh: boolean
} {
  const { refresh, signal: _, ...checked } = readOptions('discover', filters, schema)
  const query = Object.entries(checked).map(([name, value]) => {
    const parameter = name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
    const texts = Array.isArray(value) ? value : [String(value)]
    return `${parameter}=${texts.map(each => encodeURIComponent(each)).join(',')}`
  })
  return { path: `/api/v1/discovery${query.length === 0 ? '' : `?${query.join('&')}`}`, refresh }
}

/** Reads the feeds of an answer. It leaves out feeds without a valid id, and logs a warning. */
export function readCatalogue(answer: Answer): CatalogueFeed[] {
  const { call } = answer
  const values = readList(answer, 'feeds')
  const feeds = values.flatMap(readFeed)
  if (feeds.length === values.length) return feeds
  const rule = `${values.length - feeds.length} of ${values.length} feeds have no feedId of 0x and 64 hexadecimal digits`
  if (feeds.length === 0) throw invalidResponse(call, rule)
  call.scope.log.warn?.(`discover: ${rule}, and are left out`)
  return feeds
}

function readFeed(value: unknown): CatalogueFeed | [] {
  const given = (value ?? {}) as Readonly<Record<string, unknown>>
  const { feedId, feedID = feedId } = given
  if (!isFeedID(feedID)) return []
  const feed: Record<string, unknown> = { feedID: feedID.toLowerCase() }
  for (const name of catalogueTexts) if (typeof given[name] === 'string') feed[name] = given[name]
  for (const name of catalogueDates) {
    const date = new Date(typeof given[name] === 'string' ? given[name] : Number.NaN)
    if (!Number.isNaN(date.getTime())) feed[name] = date
  }
  return feed as unknown as CatalogueFeed
}

interface Kept {
  readonly feeds: readonly CatalogueFeed[]
  readonly fetchedAt: number
  /** The time of the answer by `performance.now`. */
  readonly answered: number
  readonly keptFor: number
  readonly credentials: number
}

/**
 * The newest answer for each path. An answer is kept for one client and one set of credentials,
 * because it depends on what the credentials may read, although the service calls it public.
 */
export class CatalogueCache {
  readonly #now: () => number
  readonly #credentials: () => number
  readonly #answers = new BoundedMap<string, Kept>(MOST_ANSWERS)

  /** `credentials` is a number that changes when the client signs with other credentials. */
  constructor(now: () => number, credentials: () => number) {
    this.#now = now
    this.#credentials = credentials
  }

  /** The number of the credentials in use. */
  get generation(): number {
    return this.#credentials()
  }

  /** The answer, if it may still be used without a request. */
  fresh(path: string): Catalogue | undefined {
    const kept = this.#find(path)
    return kept !== undefined && this.#age(kept) < kept.keptFor
      ? this.#show(kept, false)
      : undefined
  }

  /** The answer that stands in for one that failed with this error, if there is one. */
  standIn(path: string, error: unknown): Catalogue | undefined {
    // A service that refuses the credentials or the request has answered.
    const isAway =
      isStreamsError(error, 'API_RESPONSE') || (isStreamsError(error) && error.isRetryable)
    const kept = this.#find(path)
    return isAway && kept !== undefined ? this.#show(kept, true) : undefined
  }

  /** Keeps an answer to a request that began with these credentials. */
  keep(
    path: string,
    feeds: readonly CatalogueFeed[],
    headers: Headers,
    generation: number,
  ): Catalogue {
    const kept: Kept = {
      feeds,
      fetchedAt: this.#now(),
      answered: performance.now(),
      keptFor: keptFor(headers.get('cache-control')),
      credentials: generation,
    }
    this.#answers.set(path, kept)
    return this.#show(kept, false)
  }

  #find(path: string): Kept | undefined {
    const kept = this.#answers.get(path)
    if (kept?.credentials === this.#credentials()) return kept
    this.#answers.delete(path)
    return undefined
  }

  /**
   * The milliseconds since the answer. A clock that does not run while the machine sleeps, and a
   * wall clock that is set back, both make an answer younger, so the older age counts.
   */
  #age({ answered, fetchedAt }: Kept): number {
    return Math.max(performance.now() - answered, this.#now() - fetchedAt)
  }

  #show(kept: Kept, isStale: boolean): Catalogue {
    // A caller may change what it gets, and others get the same answer.
    return Object.assign(kept.feeds.map(copyFeed), {
      fetchedAt: new Date(kept.fetchedAt),
      age: this.#age(kept),
      isStale,
    })
  }
}

function copyFeed(feed: CatalogueFeed): CatalogueFeed {
  const dates = catalogueDates.flatMap(name => {
    const date = feed[name]
    return date === undefined ? [] : [[name, new Date(date)]]
  })
  return { ...feed, ...Object.fromEntries(dates) }
}

/** How long an answer may be kept by its `Cache-Control`, and at most five minutes. */
function keptFor(control: string | null): number {
  if (control === null) return KEPT_FOR
  if (/\bno-(store|cache)\b/i.test(control)) return 0
  const [, seconds] = /\bmax-age=(\d{1,9})\b/i.exec(control) ?? []
  return seconds === undefined ? KEPT_FOR : Math.min(1000 * Number(seconds), KEPT_FOR)
}
