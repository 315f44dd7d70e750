/**
 * A report service for tests, written from a description of the protocol alone: REST, WebSocket,
 * origins and signed reports over real sockets, on one port of this machine. It shares no code
 * with the library, so it can contradict it.
 *
 *     const service = await startService({ feeds: [feedID(3), feedID(8)] })
 *     const { apiKey, userSecret, endpoint, wsEndpoint } = service      // a client's config
 *     service.publish(feedID(3))                                        // store, and send to all
 *     service.publish(feedID(3), { fields: { price: -5n }, sendAfter: 200 })
 *     await service.close()
 *
 * Reports. `publish`, `store` (REST alone), `send` (WebSocket alone) and `skip` (neither: a report
 * that the service never had) take a feed id and options, or a report that one of them returned.
 * By default reports chain: observed is the clock's time in the feed's unit, but at least one more
 * than the feed's last; validFrom is the feed's last observation plus one. So many reports at once
 * run ahead of the clock; give `observed` where that matters. Options override every field, forge
 * the signatures (`signatures: 'outsider'`) or the envelope (`envelope: { feedID: other }`), name
 * the origins that send (`to: ['001']`), and delay (`storeAfter`, `sendAfter`, in ms). Reports are
 * encoded and signed when first sent or asked for; `signatures: 'dummy'` is for floods. Verify with
 * `service.network`; `makeNetwork({ name })` makes another for a rotation of signers.
 *
 * Streams. `service.sendFrame(bytesOrText, times)` sends a frame as it is, `service.junk(n)`
 * senseless ones. Per origin, or all at once: `service.origin('001').lag({ reports: 300 })`,
 * `.replay(n)`, `.replayOnConnect(n)`, `.mute()`, `.freeze()`, `.revive()`, `.disconnect(1000)`,
 * `.disconnect('reset')`, `.kill()`, `.restart()`, `.maxConnections`. All origins share `wsEndpoint`,
 * where X-Cll-Origin selects; `service.wsEndpointOf('001')` is a port of one origin alone, which
 * refuses connections while the origin is killed. `service.stop()` makes the shared port refuse.
 *
 * Requests. `service.fail({ on: 'rest', answer: 503, times: 2, path: '/api/v1/reports/latest' })`;
 * `on` may be `upgrade` or `discovery`, `answer` may be `hang`, `reset` or `usual` (with a `delay`).
 * `service.changePages(feed, reports => [...])` puts into the pages of a feed what it should not;
 * `service.changeAnswers((request, answer) => answer)` makes any answer wrong, refusals of upgrades
 * included.
 *
 * Observe. `service.requests` (every request), `.requestsTo(path)`, `.open`, `.mostOpen`, and per
 * origin `.requests`, `.upgrades`, `.connections` (their pings), `.pastConnections` (close codes).
 *
 * Assumptions, where the protocol is not documented: no report is 404; a report "at" a time is the
 * one valid at it. REST is the same at every origin, whatever the lag.
 */
import type { Credentials } from './authentication.js'
import { type Fault, makeFaults, type RunningFault } from './faults.js'
import { type Listener, makeListener } from './listener.js'
import { makeOrigin, type Origin, type OriginInside, type RequestRecord } from './origin.js'
import { feedID, isMilliseconds, makeReport, type Report, type ReportOptions } from './report.js'
import { makeHistory, type PageChange } from './rest.js'
import { type AnswerChange, makeHandlers, openConnections, type Situation } from './server.js'
import { makeNetwork, type Network, type Signing } from './signatures.js'

export { requestSignature, signedHeaders } from './authentication.js'
export type {
  AnswerChange,
  Fault,
  Network,
  Origin,
  PageChange,
  Report,
  ReportOptions,
  RequestRecord,
  RunningFault,
  Signing,
}
export { feedID, makeNetwork }

export interface ServiceOptions {
  /** The feeds that may be read. */
  readonly feeds: readonly string[]
  readonly origins?: readonly string[]
  readonly network?: Network
  /** The default signatures of reports. @default valid */
  readonly signatures?: Signing
  /** Milliseconds of the server's clock, which rules authentication and report times. */
  readonly now?: () => number
  /** Milliseconds by which the dates of its answers are ahead of its clock; undefined where they have none. @default 0 */
  readonly dateError?: number | undefined
  /** Connections at once per API key. */
  readonly maxConnections?: number
  /** The most reports in a page. */
  readonly maxPage?: number
  /** Compress frames (permessage-deflate). Off by default, since it costs the tests time. */
  readonly deflate?: boolean
  /** Answer pings. @default true */
  readonly answersPings?: boolean
}

export interface PublishOptions extends ReportOptions {
  readonly to?: readonly string[]
  readonly storeAfter?: number
  readonly sendAfter?: number
}

type Action = (what: string | Report, options?: PublishOptions) => Report

export interface Service extends Credentials {
  readonly endpoint: string
  readonly wsEndpoint: string
  wsEndpointOf(origin: string): string
  readonly network: Network
  /** API keys and their secrets; a test may add and remove some. */
  readonly keys: Map<string, string>
  /** The feeds that may be read, in lower case; a test may add and remove some. */
  readonly feeds: Set<string>
  /** The header X-Cll-Available-Origins; undefined leaves it out. */
  availableOrigins: string | undefined
  maxConnections: number

  readonly publish: Action
  readonly store: Action
  readonly send: Action
  readonly skip: Action
  sendFrame(data: string | Uint8Array, times?: number, to?: readonly string[]): void
  junk(count: number, options?: { text?: boolean; to?: readonly string[] }): void

  origin(name: string): Origin
  readonly origins: readonly Origin[]
  fail(fault: Fault): RunningFault
  /** The reports of a feed that are stored, in the order of their observations. */
  stored(feedID: string): readonly Report[]
  /** Changes the pages of a feed from now on; without a change they are as they should be. */
  changePages(feedID: string, change?: PageChange): void
  /** Changes the answers from now on, to requests and to upgrades, after the changes before. */
  changeAnswers(change: AnswerChange): void
  /** Ends all faults, and mute and frozen connections. */
  heal(): void
  /** Resets the connections of the shared port, which refuses until `start()`. */
  stop(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>

  readonly requests: readonly RequestRecord[]
  /** The requests of a path, without the query. */
  requestsTo(path: string): RequestRecord[]
  /** Open connections of all origins, now and at most ever. */
  readonly open: number
  readonly mostOpen: number
}

export async function startService(options: ServiceOptions): Promise<Service> {
  const { network = makeNetwork(), now = Date.now, signatures = 'valid' } = options
  const credentials = { apiKey: 'd1a1a1a1-0000-4000-8000-000000000001', userSecret: 'user-secret' }
  const names = options.origins ?? ['001', '002']
  const origins = new Map<string, OriginInside>()
  const ports = new Map<string, Listener>()
  const timers = new Set<NodeJS.Timeout>()
  const last = new Map<string, number>()
  const pageChanges = new Map<string, PageChange>()
  const situation: Situation = {
    origins,
    faults: makeFaults(),
    keys: new Map([[credentials.apiKey, credentials.userSecret]]),
    feeds: new Set(options.feeds.map(id => id.toLowerCase())),
    history: makeHistory(),
    pageChanges,
    maxPage: options.maxPage ?? 10_000,
    requests: [],
    maxConnections: options.maxConnections ?? 20,
    availableOrigins: `{${names.join(',')}}`,
    deflate: options.deflate ?? false,
    mostOpen: 0,
    changes: [],
    answersPings: options.answersPings ?? true,
    now,
    dateError: 'dateError' in options ? options.dateError : 0,
  }
  let sequenceNumber = 1_000

  const shared = makeListener(makeHandlers(situation))
  for (const name of names) {
    const port = makeListener(makeHandlers(situation, name))
    ports.set(name, port)
    origins.set(name, makeOrigin(name, port))
  }
  await Promise.all([shared, ...ports.values()].map(listener => listener.open()))

  const known = (name: string): OriginInside => {
    const origin = origins.get(name)
    if (origin === undefined) throw new RangeError(`no origin ${name}`)
    return origin
  }

  function reportOf(what: string | Report, given: PublishOptions): Report {
    if (typeof what !== 'string') return what
    const id = what.toLowerCase()
    const previous = last.get(id)
    const clock = isMilliseconds(id) ? now() : Math.floor(now() / 1_000)
    const observed = given.observed ?? Math.max(clock, (previous ?? 0) + 1)
    const chained = previous === undefined ? observed : Math.min(previous + 1, observed)
    last.set(id, Math.max(previous ?? 0, observed))
    return makeReport(what, {
      network,
      signatures,
      ...given,
      observed,
      validFrom: given.validFrom ?? chained,
      sequenceNumber: given.sequenceNumber ?? sequenceNumber++,
    })
  }

  function after(ms: number | undefined, act: () => void): void {
    if (ms === undefined) {
      act()
      return
    }
    const timer = setTimeout(() => {
      timers.delete(timer)
      act()
    }, ms)
    timers.add(timer)
  }

  const action =
    (stores: boolean, sends: boolean): Action =>
    (what, given = {}) => {
      const report = reportOf(what, given)
      if (stores) after(given.storeAfter, () => situation.history.add(report))
      if (sends)
        after(given.sendAfter, () => {
          for (const name of given.to ?? names) known(name).send(report)
        })
      return report
    }

  return {
    ...credentials,
    endpoint: `http://127.0.0.1:${shared.port}`,
    wsEndpoint: `ws://127.0.0.1:${shared.port}`,
    wsEndpointOf: name => `ws://127.0.0.1:${ports.get(known(name).name)?.port}`,
    network,
    keys: situation.keys as Map<string, string>,
    feeds: situation.feeds as Set<string>,
    get availableOrigins() {
      return situation.availableOrigins
    },
    set availableOrigins(value) {
      situation.availableOrigins = value
    },
    get maxConnections() {
      return situation.maxConnections
    },
    set maxConnections(value) {
      situation.maxConnections = value
    },

    publish: action(true, true),
    store: action(true, false),
    send: action(false, true),
    skip: action(false, false),
    sendFrame(data, times = 1, to = names) {
      for (const name of to) known(name).sendFrame(data, times)
    },
    junk(count, { text = false, to = names } = {}) {
      for (let i = 0; i < count; i++) {
        const bytes = Buffer.from(Array.from({ length: 40 }, (_, j) => (i * 31 + j * 17) & 0xff))
        for (const name of to) known(name).sendFrame(text ? bytes.toString('base64') : bytes)
      }
    },

    origin: known,
    get origins() {
      return [...origins.values()]
    },
    fail: fault => situation.faults.add(fault),
    stored: id => situation.history.all(id),
    changePages(id, change) {
      if (change === undefined) pageChanges.delete(id.toLowerCase())
      else pageChanges.set(id.toLowerCase(), change)
    },
    changeAnswers(change) {
      situation.changes.push(change)
    },
    heal() {
      situation.faults.clear()
      for (const origin of origins.values()) origin.revive()
    },
    stop: () => shared.close(),
    start: () => shared.open(),
    async close() {
      for (const timer of timers) clearTimeout(timer)
      for (const origin of origins.values()) origin.close()
      await Promise.all([shared, ...ports.values()].map(listener => listener.close()))
    },

    requests: situation.requests,
    requestsTo: path =>
      situation.requests.filter(request => request.path.split('?', 1)[0] === path),
    get open() {
      return openConnections(origins)
    },
    get mostOpen() {
      return situation.mostOpen
    },
  }
}
