import type { Fetch } from '../client/transport/http.js'
import type { Connect, SocketEvents } from '../client/transport/socket.js'
import { type SampleReport, sampleTime } from './reports.js'

/** How the service answers a request instead of its usual answer. */
export type Refusal = number | 'network-error' | 'no-answer'

/** A connection of a stream. */
export interface SampleConnection {
  /** The id of the origin. */
  readonly origin: string
  /** The feeds of the connection, in lower case. */
  readonly feedIDs: ReadonlySet<string>
  readonly events: SocketEvents
  isOpen: boolean
  isPaused: boolean
  /** Messages that wait because the connection is paused. */
  readonly waiting: Uint8Array[]
}

/** The functions through which a client reaches the sample service. */
export interface SampleWire {
  /** Sends a request. */
  readonly fetch: Fetch
  /** Opens a connection. */
  readonly connect: Connect
}

/** Runs a task after so many milliseconds. */
export type Later = (ms: number, task: () => void) => void

/** Milliseconds from the client to the service, or back. */
const LATENCY = 5
const encoder = new TextEncoder()

/**
 * The report service in memory. A client reaches it through its options `fetch` and `connect`. It
 * answers every request of the REST interface, and sends reports when it is told to.
 */
export class SampleService {
  readonly endpoint = 'https://service.test'
  readonly wsEndpoint = 'wss://service.test'
  /** The ids of the origins. The list of origins is in the answer to `HEAD /`. */
  readonly origins: readonly string[]
  /** All connections that are being opened or are open. */
  readonly connections: Set<SampleConnection> = new Set()
  /** The bodies that were sent, by method and URL. */
  readonly answers: Map<string, Set<string>> = new Map()
  /** Decides how a request or an upgrade fails. Undefined: it succeeds. */
  refuse: (kind: 'request' | 'stream', url: URL) => Refusal | undefined = () => undefined
  /** How many milliseconds the clock of the service is ahead of the clock of the client. */
  clockOffset = 0
  readonly #later: Later
  readonly #reports = new Map<string, SampleReport[]>()

  constructor(later: Later, origins: readonly string[] = []) {
    this.#later = later
    this.origins = origins
  }

  /** The functions that reach the service. */
  get wire(): SampleWire {
    return { fetch: this.fetch, connect: this.connect }
  }

  /** Stores a report, so that requests find it. */
  store(report: SampleReport): void {
    const reports = this.#reports.get(report.feedID) ?? []
    this.#reports.set(report.feedID, reports)
    const later = reports.findIndex(
      each => each.observationsTimestamp > report.observationsTimestamp,
    )
    reports.splice(later < 0 ? reports.length : later, 0, report)
  }

  /** Sends a report over all connections of its feed, or over those to one origin. */
  send(report: SampleReport, origin?: string): void {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
    const envelope = { feedID, validFromTimestamp, observationsTimestamp, fullReport }
    const bytes = encoder.encode(JSON.stringify({ report: envelope }))
    for (const connection of this.connections) {
      if (!connection.isOpen || !connection.feedIDs.has(feedID)) continue
      if (origin !== undefined && connection.origin !== origin) continue
      if (connection.isPaused) connection.waiting.push(bytes)
      else connection.events.message(bytes)
    }
  }

  /** Stores a report and sends it. */
  publish(report: SampleReport): void {
    this.store(report)
    this.send(report)
  }

  /** Ends all connections, or those to one origin, as if the network had failed. */
  drop(origin?: string): void {
    for (const connection of [...this.connections])
      if (origin === undefined || connection.origin === origin)
        this.#end(connection, 1006, new Error('connection reset'))
  }

  /** Answers requests. */
  readonly fetch: Fetch = (input, init) => {
    const url = new URL(String(input))
    const method = init?.method ?? 'GET'
    const signal = init?.signal ?? undefined
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason)
      const abort = (): void => reject(signal?.reason)
      signal?.addEventListener('abort', abort, { once: true })
      this.#later(2 * LATENCY, () => {
        const refusal = this.refuse('request', url)
        if (refusal === 'no-answer') return
        signal?.removeEventListener('abort', abort)
        if (refusal === 'network-error') reject(new TypeError('fetch failed'))
        else resolve(this.#answer(method, url, refusal))
      })
    })
  }

  /** Opens connections. */
  readonly connect: Connect = async ({ url, headers }, events) => {
    const target = new URL(url)
    const feedIDs = (target.searchParams.get('feedIDs') ?? '').toLowerCase().split(',')
    const connection: SampleConnection = {
      origin: headers.get('x-cll-origin') ?? '',
      feedIDs: new Set(feedIDs),
      events,
      isOpen: false,
      isPaused: false,
      waiting: [],
    }
    this.connections.add(connection)
    this.#later(2 * LATENCY, () => this.#open(connection, target))
    const end = (code: number): void =>
      this.#later(2 * LATENCY, () => this.#end(connection, code, undefined))
    return {
      ping: () => this.#later(2 * LATENCY, () => connection.isOpen && events.alive()),
      pause() {
        connection.isPaused = true
      },
      resume() {
        connection.isPaused = false
        for (const bytes of connection.waiting.splice(0)) {
          if (connection.isPaused) connection.waiting.push(bytes)
          else if (connection.isOpen) events.message(bytes)
        }
      },
      close: () => end(1000),
      terminate: () => end(1006),
    }
  }

  #open(connection: SampleConnection, url: URL): void {
    if (!this.connections.has(connection)) return
    const refusal = this.refuse('stream', url)
    if (refusal === 'no-answer') return
    if (typeof refusal === 'number')
      connection.events.refused(refusal, this.#headers(), new Uint8Array())
    if (refusal !== undefined) {
      this.#end(connection, 1006, new Error('refused'))
      return
    }
    connection.isOpen = true
    connection.events.opened(this.#headers())
  }

  #end(connection: SampleConnection, code: number, error: Error | undefined): void {
    if (!this.connections.delete(connection)) return
    connection.isOpen = false
    connection.events.ended(code, error)
  }

  #headers(): Headers {
    const date = new Date(Date.now() + this.clockOffset).toUTCString()
    const headers = new Headers({ 'content-type': 'application/json', date })
    if (this.origins.length > 0)
      headers.set('x-cll-available-origins', `{${this.origins.join(',')}}`)
    return headers
  }

  #answer(method: string, url: URL, refusal: number | undefined): Response {
    const { status, body } =
      refusal === undefined
        ? this.#find(url)
        : { status: refusal, body: { message: `the sample service answers ${refusal}` } }
    const text = method === 'HEAD' ? '' : JSON.stringify(body)
    const key = `${method} ${url}`
    const sent = this.answers.get(key) ?? new Set()
    this.answers.set(key, sent.add(text))
    return new Response(method === 'HEAD' ? null : text, { status, headers: this.#headers() })
  }

  #find({ pathname, searchParams }: URL): { status: number; body: unknown } {
    const of = (feedID: string): readonly SampleReport[] =>
      this.#reports.get(feedID.toLowerCase()) ?? []
    const feedID = searchParams.get('feedID') ?? ''
    const time = Number(searchParams.get('timestamp'))
    const valid = (id: string): SampleReport | undefined =>
      of(id).find(
        each =>
          each.validFromTimestamp <= sampleTime(id, time) &&
          sampleTime(id, time) <= each.observationsTimestamp,
      )
    const one = (report: SampleReport | undefined) =>
      report === undefined
        ? { status: 404, body: { message: 'there is no such report' } }
        : { status: 200, body: { report } }
    switch (pathname) {
      case '/api/v1/feeds':
        return {
          status: 200,
          body: { feeds: [...this.#reports.keys()].map(id => ({ feedID: id })) },
        }
      case '/api/v1/reports/latest':
        return one(of(feedID).at(-1))
      case '/api/v1/reports':
        return one(valid(feedID))
      case '/api/v1/reports/page': {
        const start = Number(searchParams.get('startTimestamp'))
        const limit = Number(searchParams.get('limit') ?? 10)
        const reports = of(feedID).filter(each => each.observationsTimestamp >= start)
        return { status: 200, body: { reports: reports.slice(0, limit) } }
      }
      case '/api/v1/reports/bulk': {
        const ids = (searchParams.get('feedIDs') ?? '').split(',')
        const reports = ids.map(valid).filter(each => each !== undefined)
        return { status: reports.length === ids.length ? 200 : 206, body: { reports } }
      }
      default:
        return { status: 200, body: {} }
    }
  }
}
