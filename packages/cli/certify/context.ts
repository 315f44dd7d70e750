import type { Connect, Fetch } from 'sluice/client'
import { createLifetime, type Lifetime } from 'sluice/core'
import { checkEgress, createEgress, createTransport } from 'sluice/internal'
import { parseOrigins } from 'sluice/plugins/ha-discovery'
import type { Credentials } from 'sluice/plugins/hmac-auth'
import type { Signers } from 'sluice/plugins/verify'
import { feedResolution, feedVersion, isFeedID } from 'sluice/report'
import type { NetworkName, Service } from '../service/service.js'
import { memberOf, Probe, type ProbeAnswer } from './probe.js'
import { type Envelope, ReportBook, readEnvelope, type SeenReport } from './report-book.js'

/** The service to certify, and how. */
export interface CertifySubject {
  readonly endpoint: string
  /** The URL of the streams, a single one. */
  readonly wsEndpoint: string
  readonly network: NetworkName | undefined
  readonly credentials: Credentials
  readonly egress: Service['egress']
  /** The feeds that the user named, in normal form. Without any, some that the service lists. */
  readonly feedIDs: readonly string[]
  /** How long the streams are watched, in milliseconds. */
  readonly forMs: number
  /** The most requests in a second. */
  readonly rate: number
  readonly signers: Signers | undefined
  readonly env: Readonly<Record<string, string | undefined>>
}

/** The most feeds that are watched. */
export const MAX_FEEDS = 5
/** A feed whose latest report is older than this, in milliseconds, may have a closed market. */
const FRESH = 60_000

/** The tools of the checks, and what several checks share. */
export class CertifyContext {
  readonly subject: CertifySubject
  readonly probe: Probe
  readonly book: ReportBook
  readonly connect: Connect
  /** The longest that a check may take, in milliseconds. */
  readonly longest: number
  /** Aborts when the user stops the command: nothing more is sent. */
  readonly stopped: AbortSignal
  /** The feeds that are watched, once `access` has found them. */
  feedIDs: readonly string[] = []
  /** The answer to the list of feeds. */
  feedList: ProbeAnswer | undefined
  readonly #life: Lifetime = createLifetime()
  /** Milliseconds of `performance.now` at which the watch ends; undefined before it begins. */
  #endsAt: number | undefined
  #origins: Promise<Discovery> | undefined
  #latest: Promise<readonly Latest[]> | undefined

  constructor(subject: CertifySubject, budget: number, stopped: AbortSignal) {
    const { egress, endpoint, credentials, rate, forMs } = subject
    this.subject = subject
    this.stopped = stopped
    const transport = createTransport(egress, this.#life)
    const settings = checkEgress(egress) ?? { findProxy: () => undefined, tls: {} }
    this.connect = transport.connect ?? createEgress(settings, this.#life.signal).connect
    const fetch: Fetch = transport.fetch ?? globalThis.fetch
    this.probe = new Probe({ endpoint, credentials, fetch, rate, budget, signal: stopped })
    this.book = new ReportBook(subject.signers, () => this.probe.now())
    this.longest = forMs + (budget / rate) * 1000 + 60_000
  }

  /** Aborts when the checks have to give up, a while after `stopped`. */
  get signal(): AbortSignal {
    return this.#life.signal
  }

  /** Milliseconds until the watch of the streams ends; 0 if the user has stopped it. */
  get left(): number {
    if (this.stopped.aborted) return 0
    return Math.max(0, (this.#endsAt ?? Number.POSITIVE_INFINITY) - performance.now())
  }

  /** Begins the time of the watch, at the first call: the first upgrade has come to its end. */
  beginWatch(): void {
    this.#endsAt ??= performance.now() + this.subject.forMs
  }

  /** Lets the watch go on for at least so many milliseconds from now, whatever was slow. */
  extendWatch(ms: number): void {
    if (this.#endsAt !== undefined) this.#endsAt = Math.max(this.#endsAt, performance.now() + ms)
  }

  /** Chooses the feeds: those that the user named, or one of each version, and then others. */
  chooseFeeds(listed: readonly string[]): void {
    const { feedIDs } = this.subject
    const firsts = listed.filter(
      (id, at) => listed.findIndex(other => feedVersion(other) === feedVersion(id)) === at,
    )
    const chosen = feedIDs.length > 0 ? feedIDs : [...new Set([...firsts, ...listed])]
    this.feedIDs = chosen.slice(0, MAX_FEEDS)
  }

  /** Asks once for the latest report of each feed. */
  latest(): Promise<readonly Latest[]> {
    this.#latest ??= Promise.all(this.feedIDs.map(feedID => this.askLatest(feedID)))
    return this.#latest
  }

  /**
   * Leaves out the feeds that the key may not read, of which one could have a whole stream refused.
   * Returns their ids.
   */
  async leaveOutRefused(): Promise<readonly string[]> {
    const refused = (await this.latest())
      .filter(({ answer }) => answer.status === 401)
      .map(({ feedID }) => feedID)
    this.feedIDs = this.feedIDs.filter(feedID => !refused.includes(feedID))
    return refused
  }

  /** Asks for the latest report of a feed, and remembers it. */
  async askLatest(feedID: string): Promise<Latest> {
    const answer = await this.probe.ask(`/api/v1/reports/latest?feedID=${feedID}`)
    const envelope = readEnvelope(memberOf(answer.json, 'report'))
    const taken = { isStreamed: false, isLive: true }
    const seen = typeof envelope === 'string' ? undefined : this.book.take(envelope, taken)
    return { feedID, answer, envelope, seen }
  }

  /** The largest group of feeds of one unit that have just had a report, with these reports. */
  async liveFeeds(): Promise<readonly SeenReport[]> {
    const seen = (await this.latest()).flatMap(({ seen }) => seen ?? [])
    const groups = (['s', 'ms'] as const).map(unit => {
      const each = seen.filter(({ feedID }) => feedResolution(feedID) === unit)
      const newest = Math.max(...each.map(({ observed }) => observed))
      const span = unit === 's' ? FRESH / 1000 : FRESH
      return each.filter(({ observed }) => newest - observed < span)
    })
    return groups.reduce((most, each) => (each.length > most.length ? each : most))
  }

  /** Asks once for the origins of the streams. */
  origins(): Promise<Discovery> {
    this.#origins ??= this.#discover()
    return this.#origins
  }

  async #discover(): Promise<Discovery> {
    const url = new URL('/', this.subject.wsEndpoint)
    url.protocol = url.protocol === 'wss:' ? 'https:' : 'http:'
    const { status, headers } = await this.probe.ask(url.href, { method: 'HEAD' })
    const header = headers.get('x-cll-available-origins')
    const { apiKey, userSecret } = this.subject.credentials
    const repeatsSecret = (id: string): boolean => id.includes(apiKey) || id.includes(userSecret)
    try {
      return { status, header, ids: parseOrigins(header, repeatsSecret) }
    } catch {
      return { status, header, ids: [] }
    }
  }

  /** Ends every connection. */
  close(): void {
    this.#life.end()
  }
}

/** The list of origins, as the service gave it. */
export interface Discovery {
  readonly status: number
  readonly header: string | null
  /** The ids in the header; empty if it has none. */
  readonly ids: readonly string[]
}

/** An answer to a request for the latest report of a feed. */
export interface Latest {
  readonly feedID: string
  readonly answer: ProbeAnswer
  /** A text says what is wrong with it. */
  readonly envelope: Envelope | string
  readonly seen: SeenReport | undefined
}

/** The ids in a list of feeds; undefined if an entry has none. */
export function feedIDsIn({ json }: ProbeAnswer): readonly string[] | undefined {
  const feeds = memberOf(json, 'feeds')
  if (!Array.isArray(feeds)) return undefined
  const ids = feeds.map(feed => memberOf(feed, 'feedID'))
  return ids.every((id): id is string => typeof id === 'string' && isFeedID(id))
    ? ids.map(id => id.toLowerCase())
    : undefined
}
