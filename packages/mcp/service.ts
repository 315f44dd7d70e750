import { type Config, createClient, findFeed, type KnownFeed, knownFeeds } from 'sluice'
import { type CatalogueFeed, type Client, isNotFound } from 'sluice/client'
import { adviseName, isStreamsError, onAbort } from 'sluice/core'
import { clientNames, pickOptions, presetOf, quoted, shown } from 'sluice/internal'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { type MarketVerdict, marketGuard } from 'sluice/plugins/market-guard'
import { type Signers, type Verification, verifyReport } from 'sluice/plugins/verify'
import { isFeedID, type Report } from 'sluice/report'
import type { Settings } from './config.js'
import { ToolError } from './tool-error.js'

/** A feed, with what is known of it. */
export interface FoundFeed {
  readonly feedID: string
  readonly name: string | undefined
  /** Undefined if nothing says it. */
  readonly decimals: number | undefined
  /** True if only the operator's setting for unknown feeds says the decimals. */
  readonly isAssumed: boolean
}

/** A report whose signatures have been checked. Prices are told of such a report alone. */
export interface VerifiedReport {
  readonly report: Pick<
    Report<DecodedReport>,
    'decoded' | 'validFromTimestamp' | 'observationsTimestamp'
  >
  readonly verification: Verification
}

/** Milliseconds for which a list of feeds is used of a service without a catalogue. */
const LISTED_FOR = 300_000
const FIRST_REPORT = 6000
/** The most feeds that an error names. */
const MAX_NAMED = 8

/** The service, as the tools use it. A request that lacks a setting says which. */
export class Service {
  readonly settings: Settings
  readonly #guard = marketGuard()
  #client: Client<DecodedReport> | undefined
  #listed: { readonly feeds: readonly CatalogueFeed[]; readonly at: number } | undefined

  readonly #firstReport: number

  /** Waits so many milliseconds for the first verified report of a stream. */
  constructor(settings: Settings, firstReport: number = FIRST_REPORT) {
    this.settings = settings
    this.#firstReport = firstReport
  }

  /** The client. Throws without credentials. */
  get client(): Client<DecodedReport> {
    const { endpoint, wsEndpoint, credentials, signers } = this.settings
    if (credentials === undefined)
      throw new ToolError(
        'not-configured',
        'the server has no credentials: API_KEY and USER_SECRET must be set in its environment',
      )
    if (this.#client === undefined) {
      // Few reports are verified here, so the event loop does it without threads.
      const verify = signers === undefined ? {} : { verify: { signers, workers: 0 } }
      const config: Config = { ...credentials, endpoint, wsEndpoint, retryAttempts: 2, ...verify }
      const preset = presetOf(config)
      this.#client = createClient({
        ...pickOptions(config, clientNames),
        plugins: [this.#guard, ...preset],
      })
    }
    return this.#client
  }

  /** Who may sign. Throws if nothing says so: then no price may be told. */
  get signers(): Signers {
    const { signers } = this.settings
    if (signers !== undefined) return signers
    throw new ToolError(
      'not-configured',
      'no signers are configured, so no report can be verified and no price is told. The operator must set SLUICE_SIGNERS (addresses with SLUICE_F, or a file), or SLUICE_ONCHAIN (the URL of an Ethereum node)',
    )
  }

  async close(): Promise<void> {
    await this.#client?.close()
  }

  /** All feeds that the service lists. A service without a catalogue lists what may be read. */
  async listFeeds(signal: AbortSignal): Promise<readonly CatalogueFeed[]> {
    const { client } = this
    const listed = this.#listed
    if (listed !== undefined && Date.now() - listed.at < LISTED_FOR) return listed.feeds
    try {
      return await client.discover({ hidden: true, signal })
    } catch (thrown) {
      if (!isNotFound(thrown)) throw thrown
    }
    const feeds = await client.listFeeds({ signal })
    const named = feeds.map(feed => {
      const { name, asset, quoteAsset } = { ...findFeed(feed.feedID), ...feed }
      return {
        feedID: feed.feedID,
        ...(name !== undefined && { name }),
        ...(asset !== undefined && { baseAsset: asset }),
        ...(quoteAsset !== undefined && { quoteAsset }),
      }
    })
    this.#listed = { feeds: named, at: Date.now() }
    return named
  }

  /** Finds a feed by its id, its name, or its two assets. Throws unless exactly one fits. */
  async findFeed(text: string, signal: AbortSignal): Promise<FoundFeed> {
    const given = text.trim()
    if (isFeedID(given)) {
      const feedID = given.toLowerCase()
      const name = findFeed(feedID)?.name
      if (name !== undefined) return this.knownFeed({ feedID, name })
      const feeds = await this.listFeeds(signal).catch(() => [])
      return this.knownFeed(feeds.find(each => each.feedID === feedID) ?? { feedID })
    }
    if (/^0x/i.test(given))
      throw new ToolError('invalid-input', 'feed must be 0x and 64 hexadecimal digits, or a name')
    const { network } = this.settings
    const wanted = bare(given)
    const known =
      network === undefined
        ? undefined
        : Object.values<KnownFeed>(knownFeeds[network]).find(({ name }) => bare(name) === wanted)
    if (known !== undefined) return this.knownFeed(known)
    const feeds = await this.listFeeds(signal)
    const exact = feeds.filter(({ name = '' }) => bare(name) === wanted && wanted !== '')
    const fitting =
      exact.length > 0
        ? exact
        : feeds.filter(
            ({ baseAsset = '', quoteAsset = '' }) =>
              bare(baseAsset + quoteAsset) === wanted && wanted !== '',
          )
    const [found, other] = fitting
    if (found !== undefined && other === undefined) return this.knownFeed(found)
    if (found === undefined) {
      const advice = adviseName(
        shown(given),
        feeds.flatMap(({ name }) => name ?? []),
      )
      const meant = advice.startsWith('did you mean') ? ` ${shown(advice, 120)}` : ''
      throw new ToolError(
        'unknown-feed',
        `feed must be an id or a name that the service lists: ${quoted(given)} is none.${meant} find_feeds lists them`,
      )
    }
    const named = fitting.slice(0, MAX_NAMED).map(each => `${each.feedID} (${nameOf(each)})`)
    const more = fitting.length > MAX_NAMED ? `, and ${fitting.length - MAX_NAMED} more` : ''
    throw new ToolError(
      'ambiguous-feed',
      `${fitting.length} feeds have this name. Give the id of one: ${named.join(', ')}${more}`,
    )
  }

  /** A feed with what is known of it without a request. */
  knownFeed({ feedID, name: listed }: Pick<CatalogueFeed, 'feedID' | 'name'>): FoundFeed {
    const known = findFeed(feedID)
    const name = known?.name ?? listed
    return {
      feedID,
      name: name === undefined ? undefined : shown(name),
      decimals: known?.decimals ?? this.settings.decimals,
      isAssumed: known?.decimals === undefined && this.settings.decimals !== undefined,
    }
  }

  /** Verifies a report here, whatever has been verified below, and decodes it. */
  async verified(report: Report<DecodedReport>, signal: AbortSignal): Promise<VerifiedReport> {
    const { feedID, fullReport } = report
    const { signers } = this
    const verification = await verifyReport(fullReport, { signers, feedID, signal })
    return { report, verification }
  }

  /** Opens a stream of a feed, and judges the feed by its first verified report. */
  async judge(feedID: string, signal: AbortSignal): Promise<JudgedFeed> {
    void this.signers
    // The guard reads the hours of the feed there, and the answer is kept for it.
    await this.client.discover({ hidden: true, signal }).catch(() => undefined)
    const stream = this.client.createStream(feedID, { maxReconnectAttempts: 1 })
    let rejected: Error | undefined
    try {
      const first = new Promise<Report<DecodedReport> | undefined>((resolve, reject) => {
        const timer = setTimeout(() => resolve(undefined), this.#firstReport)
        const forget = onAbort(signal, () => reject(signal.reason))
        const end = (): void => {
          clearTimeout(timer)
          forget()
        }
        stream.on('report', report => {
          end()
          resolve(report)
        })
        stream.on('error', error => {
          if (isStreamsError(error, 'VERIFICATION')) rejected = error
        })
        stream.connect().catch(error => {
          end()
          reject(error)
        })
      })
      const report = await first
      if (report === undefined && rejected !== undefined) throw rejected
      if (report === undefined && stream.getMetrics().activeConnections === 0)
        throw new ToolError(
          'unavailable',
          'the service has not opened a stream in time, so the state of the market is not known',
        )
      const verdict = this.#guard.of(feedID)
      if (report !== undefined) await this.verified(report, signal)
      return { verdict, report }
    } finally {
      await stream.close()
    }
  }
}

/** The verdict of the market guard, and the report that it goes by. */
export interface JudgedFeed {
  readonly verdict: MarketVerdict
  /** Undefined if none came in time. */
  readonly report: Report<DecodedReport> | undefined
}

/**
 * A name in lower case without separators, so that ETH/USD, eth-usd and ethusd are equal. Every
 * other character counts: BTC/USD₮ is not BTC/USD.
 */
function bare(name: string): string {
  return name
    .slice(0, 200)
    .toLowerCase()
    .replace(/[\s/_:.-]/g, '')
}

/** The name of a feed for a person. */
export const nameOf = ({ name, feedID }: Pick<CatalogueFeed, 'feedID' | 'name'>): string =>
  name === undefined ? feedID : shown(name)
