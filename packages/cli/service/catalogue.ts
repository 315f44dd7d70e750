import { createHash } from 'node:crypto'
import { mkdir, readdir, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { CatalogueFeed, CatalogueFilters, Rest } from 'sluice/client'
import { isStreamsError, ValidationError } from 'sluice/core'
import { readTextFile, writeWhole } from 'sluice/internal'
import { isFeedID } from 'sluice/report'
import { printable } from '../io.js'

type Env = Readonly<Record<string, string | undefined>>

/** An answer of the catalogue. */
export interface KeptAnswer {
  readonly feeds: readonly CatalogueFeed[]
  /** When the service answered, in Unix milliseconds. */
  readonly fetchedAt: number
  /** True if the answer is from the user's files. */
  readonly isKept: boolean
  /** True if the service did not answer, so that this older answer stands in. */
  readonly isStale: boolean
}

/** Milliseconds for which an answer is used without a request. */
const KEPT_FOR = 300_000
/** Milliseconds after which the file of an answer is removed. */
const REMOVED_AFTER = 7 * 86_400_000
/** The most bytes that the file of an answer may have. */
const MAX_BYTES = 33_554_432
/** The feeds in which a name is looked up. */
const ALL: CatalogueFilters = { hidden: true }
const dates = ['createdAt', 'expectedDecommissionAt', 'decommissionedAt'] as const

/**
 * The answers of a service's catalogue, in files that only the user can read: one for each service,
 * key and filters. A file has no key, and its name only a part of a hash of the key.
 */
export class KeptCatalogue {
  readonly #folder: string | undefined
  readonly #owner: string

  /** Without a folder in the environment, nothing is kept. */
  constructor(env: Env, endpoint: string, apiKey: string | undefined) {
    this.#folder = folderIn(env)
    this.#owner = hash(`${endpoint}\n${apiKey ?? ''}`)
  }

  /** Asks the catalogue, unless an answer is kept that is not five minutes old. */
  async discover(
    client: Pick<Rest, 'discover'>,
    filters: CatalogueFilters,
    isFresh = false,
  ): Promise<KeptAnswer> {
    const { signal: _, ...asked } = filters
    const kept = await this.read(asked)
    const age = kept === undefined ? Number.NaN : Date.now() - kept.fetchedAt
    if (kept !== undefined && !isFresh && age >= 0 && age < KEPT_FOR) return kept
    try {
      const feeds = await client.discover(filters)
      const answer = { feeds: [...feeds], fetchedAt: feeds.fetchedAt.getTime() }
      await this.#write(asked, answer)
      return { ...answer, isKept: false, isStale: false }
    } catch (thrown) {
      const isAway = isStreamsError(thrown) && thrown.isRetryable
      if (kept === undefined || !isAway || filters.signal?.aborted) throw thrown
      return { ...kept, isStale: true }
    }
  }

  /** The kept answer, however old. Undefined if there is none, or if it can't be read. */
  async read(filters: CatalogueFilters = ALL): Promise<KeptAnswer | undefined> {
    const path = this.#pathOf(filters)
    if (path === undefined) return undefined
    try {
      const text = await readTextFile(path, MAX_BYTES, rule => new ValidationError(rule))
      const { feeds, fetchedAt } = JSON.parse(text) as KeptAnswer
      if (!Number.isFinite(fetchedAt)) return undefined
      return { feeds: feeds.flatMap(readFeed), fetchedAt, isKept: true, isStale: false }
    } catch {
      return undefined
    }
  }

  /** Finds the feed of a name. Asks the catalogue unless `client` is undefined. */
  async find(
    name: string,
    client: Pick<Rest, 'discover'> | undefined,
    signal: AbortSignal,
  ): Promise<CatalogueFeed | undefined> {
    const kept = client === undefined ? await this.read() : undefined
    const isUsable = kept !== undefined && Date.now() - kept.fetchedAt < KEPT_FOR
    if (client === undefined) return isUsable ? findByName(name, kept.feeds) : undefined
    const asked = await this.discover(client, { ...ALL, signal }).catch(() => undefined)
    return findByName(name, asked?.feeds ?? [])
  }

  async #write(
    filters: CatalogueFilters,
    answer: Pick<KeptAnswer, 'feeds' | 'fetchedAt'>,
  ): Promise<void> {
    const path = this.#pathOf(filters)
    if (path === undefined) return
    const { feeds, fetchedAt } = answer
    // The answer is worth more than its copy: a full or read-only disk is no error.
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      await writeWhole(path, `${JSON.stringify({ fetchedAt, feeds })}\n`)
      await removeOld(dirname(path))
    } catch {}
  }

  #pathOf(filters: CatalogueFilters): string | undefined {
    const asked = hash(JSON.stringify(Object.entries(filters).sort()))
    return this.#folder && join(this.#folder, `${this.#owner}-${asked}.json`)
  }
}

function folderIn(env: Env): string | undefined {
  const cache =
    env.XDG_CACHE_HOME ||
    (process.platform === 'win32' ? env.LOCALAPPDATA : env.HOME && join(env.HOME, '.cache'))
  return cache ? join(cache, 'sluice', 'catalogue') : undefined
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 24)
}

async function removeOld(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    if (Date.now() - (await stat(path)).mtimeMs > REMOVED_AFTER) await unlink(path)
  }
}

function readFeed(value: unknown): CatalogueFeed | [] {
  const feed = { ...(value as Record<string, unknown>) }
  if (!isFeedID(feed.feedID)) return []
  for (const name of dates) if (typeof feed[name] === 'string') feed[name] = new Date(feed[name])
  return feed as unknown as CatalogueFeed
}

/** The most feeds that an error lists. */
const MOST_LISTED = 10

/**
 * Finds the feed of a name: by its whole name, or else by its two assets. Throws if several feeds
 * fit.
 */
function findByName(text: string, feeds: readonly CatalogueFeed[]): CatalogueFeed | undefined {
  const wanted = bare(text)
  const exact = feeds.filter(({ name }) => name !== undefined && bare(name) === wanted)
  const found =
    exact.length > 0
      ? exact
      : feeds.filter(
          ({ baseAsset, quoteAsset }) =>
            baseAsset !== undefined &&
            quoteAsset !== undefined &&
            bare(baseAsset + quoteAsset) === wanted,
        )
  if (found.length < 2) return found[0]
  const listed = found
    .slice(0, MOST_LISTED)
    .map(({ feedID, name, networkType, status }) =>
      printable([feedID, name, networkType, status].filter(Boolean).join(' ')),
    )
  const more = found.length > MOST_LISTED ? `, and ${found.length - MOST_LISTED} more` : ''
  throw new ValidationError(
    `${JSON.stringify(text.slice(0, 80))} fits ${found.length} feeds, so give the id of one: ${listed.join('; ')}${more}`,
  )
}

/** A name in lower case without punctuation, so that ETH/USD, eth-usd and ethusd are equal. */
function bare(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '')
}
