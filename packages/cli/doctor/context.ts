import type { Socket } from 'node:net'
import { type Config, createClient } from 'sluice'
import type { Client } from 'sluice/client'
import { createLifetime, type Lifetime, sleep, ValidationError, withTimeout } from 'sluice/core'
import {
  checkEgress,
  createEgress,
  createHttp,
  createTransport,
  type FindProxy,
  type HttpAnswer,
  type Target,
  targetOf,
} from 'sluice/internal'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { Credentials } from 'sluice/plugins/hmac-auth'
import type { Report } from 'sluice/report'
import { observedAt } from '../output/feeds.js'
import type { LogOptions } from '../service/nats.js'

/** The service that the doctor checks, and the machine that asks it. */
export interface Subject {
  readonly endpoint: string
  /** One URL, or several separated by commas. */
  readonly wsEndpoint: string
  /** Undefined if the environment has no credentials. */
  readonly credentials: Credentials | undefined
  /** The proxy and TLS settings, as in a client's configuration. */
  readonly network: Pick<Config, 'proxy' | 'tls'>
  /** The feeds that the user asked about, in normal form. */
  readonly feedIDs: readonly string[]
  /** What is wrong with each feed that the user gave and that does not exist. */
  readonly unknownFeeds?: readonly string[]
  /** How many seconds the doctor watches the origins. */
  readonly seconds: number
  /** The relay's log to check; undefined if no log is to be checked. */
  readonly log: LogOptions | undefined
  readonly env: Readonly<Record<string, string | undefined>>
  /** The version of Node.js, without its `v`. */
  readonly nodeVersion: string
  /** The context in use, and the file that holds it. */
  readonly context?: { readonly name: string; readonly path: string | undefined } | undefined
  /** The folder of the package of this command. */
  readonly folder: string
}

/** The timeout of a check's request, in milliseconds. */
const TIMEOUT = 10_000

/** The tools of the checks. It caches answers that several checks need. */
export class Context {
  readonly subject: Subject
  /** The hosts and ports of REST and of the streams, without duplicates. */
  readonly targets: readonly Target[]
  readonly wsEndpoints: readonly string[]
  readonly findProxy: FindProxy
  readonly #life: Lifetime
  readonly #http: ReturnType<typeof createHttp>
  readonly #tls: Parameters<typeof createEgress>[0]['tls']
  #client: Client<DecodedReport> | undefined
  #feeds: Promise<readonly string[]> | undefined
  #clock: Promise<ClockReading | undefined> | undefined

  /** Throws ValidationError if an option is invalid. */
  constructor(subject: Subject, signal: AbortSignal) {
    const { endpoint, wsEndpoint, network } = subject
    this.subject = subject
    this.#life = createLifetime(signal)
    const { findProxy, tls } = checkEgress(network) ?? { findProxy: () => undefined, tls: {} }
    this.findProxy = findProxy
    this.#tls = tls
    this.#http = createHttp(createTransport(network, this.#life).fetch)
    this.wsEndpoints = wsEndpoint.split(',').map(url => url.trim())
    const targets = [endpoint, ...this.wsEndpoints].map(url => targetOf(new URL(url)))
    this.targets = [...new Map(targets.map(target => [nameOf(target), target])).values()]
  }

  /** Aborts when the user stops the command. */
  get signal(): AbortSignal {
    return this.#life.signal
  }

  /** Opens a connection without TLS, directly to the target or through its proxy. */
  open(target: Target, until: AbortSignal): Promise<Socket> {
    // The proxy depends on whether the target uses TLS, so the proxy is chosen before TLS is turned
    // off.
    const proxy = this.findProxy(target)
    const egress = createEgress({ findProxy: () => proxy, tls: this.#tls }, this.signal)
    return egress.openSocket({ ...target, isSecure: false }, until)
  }

  /** A client that sends each request once, or twice if this machine's clock is wrong. */
  client(): Client<DecodedReport> {
    if (this.#client !== undefined) return this.#client
    const { credentials, endpoint, wsEndpoint, network } = this.subject
    if (credentials === undefined) throw new ValidationError('there are no credentials')
    const { apiKey, userSecret } = credentials
    const config = { apiKey, userSecret, endpoint, wsEndpoint, ...network }
    const client = createClient({ ...config, retryAttempts: 0, timeout: TIMEOUT })
    this.#client = client
    this.#life.defer(() => client.close())
    return client
  }

  /** The ids of the feeds that the credentials may read. */
  readableFeeds(): Promise<readonly string[]> {
    this.#feeds ??= this.client()
      .listFeeds({ signal: this.signal })
      .then(feeds => feeds.map(({ feedID }) => feedID))
    return this.#feeds
  }

  /** Sends a HEAD request once. Rejects if it is not answered within `TIMEOUT`. */
  async head(url: URL, headers: Headers = new Headers()): Promise<HttpAnswer> {
    const late = (): Error => new Error(`no answer within ${TIMEOUT / 1000} s`)
    const ask = (signal: AbortSignal): Promise<HttpAnswer> =>
      this.#http({ method: 'HEAD', url: url.href, headers, signal }, 0)
    return withTimeout(TIMEOUT, late, ask, this.#life)
  }

  /** The service's clock; undefined if its answers have no date. */
  clock(): Promise<ClockReading | undefined> {
    this.#clock ??= readClock(this)
    return this.#clock
  }

  /**
   * Milliseconds by which to correct this machine's clock; 0 if the difference is too small to
   * measure.
   */
  async correction(): Promise<number> {
    const reading = await this.clock().catch(() => undefined)
    return reading !== undefined && Math.abs(reading.offset) > reading.error ? reading.offset : 0
  }

  /** Milliseconds since the observations of a report, by the service's clock. */
  async ageOf(report: Pick<Report, 'feedID' | 'observationsTimestamp'>): Promise<number> {
    return Date.now() + (await this.correction()) - observedAt(report)
  }

  /** Ends every open connection. */
  async close(): Promise<void> {
    this.#life.end()
    await this.#client?.close()
  }
}

/** A target as people write it: `host:443`. */
export function nameOf({ host, port }: Target): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Formats milliseconds for people: `0.4 s`, `3 min`, `2 days`. */
export function formatSeconds(ms: number): string {
  const seconds = ms / 1000
  if (Math.abs(seconds) < 100) return `${seconds.toFixed(1)} s`
  if (Math.abs(seconds) < 6000) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800
    ? `${Math.round(seconds / 3600)} h`
    : `${Math.round(seconds / 86_400)} days`
}

/** The median of the numbers; NaN if there are none. */
export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((one, other) => one - other)
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN
}

/** The difference between the service's clock and this machine's clock. */
export interface ClockReading {
  /** Milliseconds by which the service's clock is ahead of this machine's clock. */
  readonly offset: number
  /** Milliseconds by which the offset may be wrong. */
  readonly error: number
}

/**
 * How many requests measure the offset. A `Date` has whole seconds, so requests at different parts
 * of a second narrow the offset down.
 */
const REQUESTS = 3
/** Milliseconds between two of these requests: a third of a second. */
const PAUSE = 333

/**
 * Compares the `Date` of the service's answers with this machine's clock. The requests need no
 * signature.
 */
async function readClock(context: Context): Promise<ClockReading | undefined> {
  const dates = new AnswerDates()
  for (let request = 0; request < REQUESTS; request++) {
    if (request > 0) await sleep(PAUSE, context.signal)
    const sentAt = Date.now()
    const { headers } = await context.head(new URL('/', context.subject.endpoint))
    if (!dates.note(headers.get('date'), sentAt, Date.now())) return undefined
  }
  return dates.read()
}

/** The dates of answers, each of which narrows down the offset of the service's clock. */
export class AnswerDates {
  #least = Number.NEGATIVE_INFINITY
  #most = Number.POSITIVE_INFINITY

  /** Takes the `Date` of an answer. Returns false if the answer has none. */
  note(text: string | null, sentAt: number, receivedAt: number): boolean {
    const date = Date.parse(text ?? '')
    if (Number.isNaN(date)) return false
    // The service set the `Date` between `sentAt` and `receivedAt`. A `Date` stands for any moment
    // of its second.
    this.#least = Math.max(this.#least, date - receivedAt)
    this.#most = Math.min(this.#most, date + 1000 - sentAt)
    return true
  }

  /** The offset of the service's clock; undefined if no answer had a date. */
  read(): ClockReading | undefined {
    if (this.#most === Number.POSITIVE_INFINITY) return undefined
    return {
      offset: Math.round((this.#least + this.#most) / 2),
      error: Math.abs(this.#most - this.#least) / 2,
    }
  }
}
