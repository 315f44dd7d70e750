import { asyncDispose } from '../core/async.js'
import type { Clock } from '../core/clock.js'
import { composeCall } from '../core/compose.js'
import { DataStreamsError, pluginError, ValidationError } from '../core/errors.js'
import { lazy } from '../core/lazy.js'
import { createLifetime, type Lifetime } from '../core/lifetime.js'
import { createLog } from '../core/log.js'
import {
  checkFunction,
  MAX_TIMER,
  number,
  type OptionNames,
  optional,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from '../core/options.js'

import { type Stack, setUp } from '../core/stack.js'
import { createDecoderTable } from '../report/decoder.js'
import { parseFeedIDs } from '../report/feed-id.js'
import type { DecoderTable, Report } from '../report/report.js'
import { reportVerifier } from '../report/verifier.js'
import { held, platformTiming, timingOf } from './clock.js'
import type { Call, Reply } from './contract/call.js'
import type { Handler, Plugins } from './contract/plugin.js'
import type { PluginClient } from './contract/scope.js'
import { describeCall } from './describe-call.js'
import type { EgressOptions, TLSOptions } from './egress/options.js'
import { createTransport } from './egress/transport.js'
import { createTotals } from './metrics.js'
import { describeClock, GivenPresent, Present } from './present.js'
import { type HistoryOptions, iterateHistory, ReportsBetween } from './request/history.js'
import type { MomentOptions } from './request/report-at.js'
import type { Parent, Requests, RequestsContext } from './request/requests.js'
import type { Send } from './request/send.js'
import type { RequestOptions, RequestReply, Rest, SendRequestOptions } from './rest.js'
import { createStack, type DataOf, type EventsOf } from './stack.js'
import type { StreamOptions } from './stream/options.js'
import { createStream } from './stream/stream.js'
import type { ConnectionStatusCallback, Stream } from './stream/stream-api.js'
import type { Fetch } from './transport/http.js'
import type { Connect } from './transport/socket.js'
import { checkURL, checkURLs, plainHosts } from './urls.js'

/** Options of a client with your own stack. */
export interface ClientOptions<Given extends Plugins = Plugins> extends EgressOptions {
  /** The URL of the REST interface. */
  readonly endpoint: string
  /**
   * The URL of the WebSocket interface. With `haDiscovery`, several URLs separated by commas are
   * allowed.
   */
  readonly wsEndpoint: string
  /** The stack. The first plugin is nearest to you. */
  readonly plugins: Given
  /** The most milliseconds for each attempt of a request. @default 30000 */
  readonly timeout?: number
  /** Called when a connection of a stream opens or is lost. */
  readonly connectionStatusCallback?: ConnectionStatusCallback
  /** Sends requests. @default the platform's fetch */
  readonly fetch?: Fetch
  /** Opens connections of streams. @default ws on Node, or the platform's WebSocket elsewhere */
  readonly connect?: Connect
  /** The wall clock, in milliseconds. @default Date.now */
  readonly now?: () => number
  /**
   * The present of a client that does not live in the present, such as that of a replay. It is
   * trusted: neither dates of the service nor reports correct it. What depends on the time of
   * reports goes by it; connections and requests go by the platform's. Not together with `now`.
   */
  readonly clock?: Clock
}

const schema = {
  endpoint: (field, value) => checkURL(field, value, ['https:', 'http:']),
  wsEndpoint: (field, value) => checkURLs(field, value, ['wss:', 'ws:']).join(','),
  plugins: unchecked<Plugins>,
  timeout: withDefault(30_000, number({ min: 1, max: MAX_TIMER })),
  connectionStatusCallback: optional(checkFunction<ConnectionStatusCallback>),
  fetch: optional(checkFunction<Fetch>),
  connect: optional(checkFunction<Connect>),
  now: optional(checkFunction<() => number>),
  clock: optional(checkClock),
  proxy: unchecked<string | undefined>,
  tls: unchecked<TLSOptions | undefined>,
} satisfies Schema<ClientOptions>

function checkClock(field: string, value: unknown): Clock {
  const clock = value as Partial<Clock> | null
  for (const name of ['setTimeout', 'clearTimeout'] as const)
    checkFunction(`${field}.${name}`, clock?.[name])
  checkFunction(`${field}.Date.now`, clock?.Date?.now)
  if (clock?.hold !== undefined) checkFunction(`${field}.hold`, clock.hold)
  return value as Clock
}

/** The names of these options. */
export const clientNames: OptionNames<ClientOptions> = schema

/** A client of the report service. */
export interface Client<Data = unknown, Events = object> extends Rest<Data>, AsyncDisposable {
  /** The plugins of the client. `String(client.stack)` draws them. */
  readonly stack: Stack
  /**
   * Creates a stream of reports. `feedIDs` is one id, several ids separated by commas, or a list of
   * ids.
   */
  createStream(feedIDs: string | readonly string[], options?: StreamOptions): Stream<Data, Events>
  /**
   * Iterates the reports of a feed between two times of observation, both included, in ascending
   * order. It fetches a page when the loop needs it.
   */
  reports(feedID: string, options: HistoryOptions): AsyncGenerator<Report<Data>, void, undefined>
  /**
   * Fetches the report whose window holds a time, in the feed's unit, and never a neighbour. It
   * rejects with NoReportError if the report is not produced yet, or was never stored.
   */
  getReportAt(feedID: string, time: number, options?: MomentOptions): Promise<Report<Data>>
  /**
   * Iterates the reports whose windows touch the time from `from` to `to`, both included, in
   * ascending order. After the loop, `missing` has the ranges that no report holds.
   */
  getReportsBetween(
    feedID: string,
    from: number,
    to: number,
    options?: RequestOptions,
  ): ReportsBetween<Data>
  /**
   * Sends a request to a path of the service, signed like all others. It is for endpoints that have
   * no method here.
   */
  request(method: string, path: string, options?: SendRequestOptions): Promise<RequestReply>
  /** Ends every request and stream. Idempotent. */
  close(): Promise<void>
}

const MAX_BODY_BYTES = 33_554_432

/**
 * Creates a client with your own stack. It uses the network only after the first call. Its log
 * begins with `warnings`.
 */
export function createClient<const Given extends Plugins>(
  given: ClientOptions<Given>,
  warnings: readonly string[] = [],
): Client<DataOf<Given>, EventsOf<Given>> {
  const options = readOptions('createClient', given as ClientOptions, schema)
  const { endpoint, wsEndpoint, timeout, clock, connectionStatusCallback } = options
  if (clock !== undefined && options.now !== undefined)
    throw new ValidationError('now must not be given with clock, which tells the time')
  const now = options.now ?? (() => Date.now())
  /** The wall clock by which answers of the service are read. */
  const wall = clock === undefined ? now : () => clock.Date.now()
  const timing = clock === undefined ? platformTiming : timingOf(clock)
  const { plugins, stack } = createStack(options.plugins, `${endpoint} · ${wsEndpoint}`)
  const { log, listen } = createLog()
  const life = createLifetime()
  const { fetch, connect } = createTransport(options, life)
  const streams = new Set<Stream>()

  const services = setUp(plugins, { stack, log, listen, life })
  const decoders = plugins.flatMap(plugin => plugin.decoders ?? [])
  const verifier = services.find(reportVerifier)
  const totals = createTotals(() => Array.from(streams, stream => stream.getMetrics()))
  const table = createDecoderTable(decoders, log, verifier, totals.countUndecoded) as DecoderTable<
    DataOf<Given>
  >
  const present =
    clock === undefined
      ? new Present(now, () => time.ask(), new URL(endpoint).host)
      : new GivenPresent(() => clock.Date.now())
  present.watch(change => log.warn?.(describeClock(change)))
  life.defer(() => present.end())
  let send: Send | undefined
  let isWarned = false
  const wire: Handler = async function carry(call) {
    // No layer has taken the URLs one by one.
    if (call.kind === 'stream' && call.urls.length > 1 && !isWarned) {
      isWarned = true
      log.warn?.('only the first URL of wsEndpoint is used: set haMode, or add haDiscovery')
    }
    if (call.kind === 'stream') return call.open(call)
    if (send === undefined) {
      const { createSend } = await loadRequests()
      send ??= createSend({ fetch, timeout, maxBodyBytes: MAX_BODY_BYTES, now: wall, present })
    }
    return send(call)
  }
  const handler = composeCall(plugins, wire, { isReply, copy, failure })
  for (const warning of warnings) log.warn?.(warning)
  const plain = plainHosts([endpoint, ...wsEndpoint.split(',')])
  if (plain.length > 0)
    log.warn?.(
      `the connections to ${plain.join(', ')} are not encrypted: who is on the way reads your API key and may change answers; use https and wss`,
    )
  log.debug?.('configuration is valid', { endpoint, wsEndpoint, timeout })
  log.info?.('client initialized', {
    endpoint,
    wsEndpoint,
    plugins: plugins.map(plugin => plugin.name),
  })

  async function close(): Promise<void> {
    life.end(new DataStreamsError('the client was closed', { code: 'CLOSED' }))
    await Promise.all([...streams].map(stream => stream.close()))
  }

  /** Makes the client that the plugins of a request or a stream see. */
  const clientOf = (parent: Parent): PluginClient => ({
    ...requestsOf(context, parent),
    metrics: totals.read,
    now: present.now,
    serviceNow: present.serviceNow,
    timing,
    find: services.find,
  })
  const { find } = services
  const context = {
    ...{ endpoint, handler, plugins, table, log, life, timeout, find, clientOf, clock },
    now: wall,
  }
  const requests = requestsOf(context)
  const time = createTimeRequest(requests.request, endpoint, life)

  return {
    stack,
    listFeeds: requests.listFeeds,
    discover: requests.discover,
    getLatestReport: requests.getLatestReport,
    getReportByTimestamp: requests.getReportByTimestamp,
    getReportsPage: requests.getReportsPage,
    getReportsBulk: requests.getReportsBulk,
    createStream(ids, streamOptions) {
      if (life.isOver) throw life.reason
      const feedIDs = parseFeedIDs(ids)
      log.debug?.(`feed ids are valid: ${feedIDs.join(', ')}`)
      const transport = { connect, now }
      const stream = createStream({
        feedIDs,
        bases: wsEndpoint.split(','),
        handler,
        plugins,
        table,
        log,
        client: life,
        clientOf,
        present,
        timing,
        clock,
        find,
        totals,
        options: streamOptions,
        transport,
        connectionStatusCallback,
      })
      const forget = (): void => {
        streams.delete(stream)
        if (streams.size > 0) return
        present.idle()
        time.end()
      }
      streams.add(stream)
      log.info?.(`stream of ${feedIDs.length} feed${feedIDs.length === 1 ? '' : 's'} created`, {
        feedIDs,
      })
      stream.closed.then(forget, forget)
      return stream
    },
    reports: (feedID, historyOptions) =>
      iterateHistory(requests.getReportsPage, feedID, historyOptions),
    async getReportAt(feedID, at, momentOptions) {
      const { getReportAt } = await loadReportAt()
      return getReportAt(requests, { now: present.now, timing }, life, feedID, at, momentOptions)
    },
    getReportsBetween: (feedID, from, to, betweenOptions) =>
      new ReportsBetween(requests.getReportsPage, present.now, feedID, from, to, betweenOptions),
    request: requests.send,
    close,
    [asyncDispose]: close,
  }
}

/** Requests the time of the service: any answer has a `Date`, whatever its status. */
function createTimeRequest(
  request: PluginClient['request'],
  endpoint: string,
  client: Lifetime,
): { ask(): void; end(): void } {
  let pending: Lifetime | undefined
  return {
    ask() {
      pending?.end()
      const life = createLifetime(client)
      pending = life
      const facts = { operation: 'time', headers: new Headers(), signal: life.signal }
      request('HEAD', `${endpoint}/`, facts)
        .catch(() => undefined)
        .finally(() => life.end())
    },
    end: () => pending?.end(),
  }
}

const loadReportAt = lazy(() => import('./request/report-at.js'))
/** The code for requests. A process loads this code with its first request. */
const loadRequests = lazy(() => import('./request/requests.js'))

const requestMethods = [
  'listFeeds',
  'discover',
  'getLatestReport',
  'getReportByTimestamp',
  'getReportsPage',
  'getReportsBulk',
  'fetchPage',
  'fetchBulk',
  'request',
  'send',
] as const

type RequestMethods<Data> = Pick<Requests<Data>, (typeof requestMethods)[number]>

/** Makes the methods of `Requests`. Their first call loads the code. */
function requestsOf<Data>(
  context: RequestsContext<Data> & { readonly clock: Clock | undefined },
  parent?: Parent,
): RequestMethods<Data> {
  let made: Requests<Data> | undefined
  const methods = requestMethods.map(name => {
    async function request(...given: readonly never[]): Promise<unknown> {
      const { Requests } = await loadRequests()
      made ??= new Requests(context, parent)
      const method: (...given: never[]) => unknown = made[name]
      return method.apply(made, [...given])
    }
    return [name, (...given: readonly never[]) => held(context.clock, () => request(...given))]
  })
  return Object.fromEntries(methods) as RequestMethods<Data>
}

/** True for a reply whose kind is the kind of its call. */
function isReply(reply: unknown, { kind }: Call): boolean {
  return (reply as Reply | undefined)?.kind === kind
}

/** Names the plugin in an error. If the caller has aborted the call, the error stays as it is. */
function failure(thrown: unknown, plugin: string, call: Call): unknown {
  return call.signal.aborted
    ? thrown
    : pluginError(`${describeCall(call)}: plugin ${plugin} threw`, thrown)
}

function copy(call: Call): Call {
  return { ...call, headers: new Headers(call.headers) }
}
