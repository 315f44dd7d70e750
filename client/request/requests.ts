import { abortable } from '../../core/async.js'
import { DataStreamsError, pluginError, ValidationError } from '../../core/errors.js'
import { createLifetime, type Lifetime, withTimeout } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import { checkNumber, checkOptions, checkSignal, checkText, oneOf } from '../../core/options.js'
import type { Services } from '../../core/scope.js'
import { VERSION } from '../../core/version.js'
import { checkTime, parseFeedID, parseFeedIDs } from '../../report/feed-id.js'
import type { DecoderTable, Report } from '../../report/report.js'
import type { Catalogue, CatalogueFilters } from '../catalogue.js'
import { describeCall, type RequestCall, type RequestReply } from '../contract/call.js'
import { APIError } from '../contract/errors.js'
import type { Handler, Plugins } from '../contract/plugin.js'
import {
  credentialsKey,
  type FetchedPage,
  type PluginClient,
  type RequestScope,
  type StreamScope,
} from '../contract/scope.js'
import type {
  Feed,
  ReportsBulk,
  ReportsPage,
  RequestOptions,
  Rest,
  SendRequestOptions,
} from '../rest.js'
import { composeReport } from '../stack.js'
import {
  type Answer,
  isPageRefused,
  parseAnswer,
  readBulk,
  readFeeds,
  readGoodReports,
  readPage,
  readReport,
  SHORT_PAGE,
} from './answer.js'
import { CatalogueCache, cataloguePath, readCatalogue } from './catalogue.js'

export { createSend } from './send.js'

/** A request or a stream for which a plugin makes requests of its own. */
export type Parent = RequestScope | StreamScope

/** What requests share with their client. */
export interface RequestsContext<Data = unknown> {
  readonly endpoint: string
  readonly handler: Handler
  readonly plugins: Plugins
  readonly table: DecoderTable<Data>
  readonly log: Log
  /** The life of the client. */
  readonly life: Lifetime
  /** Milliseconds for an attempt, and as many again for the plugins' work on the answer. */
  readonly timeout: number
  /** The wall clock, in milliseconds. */
  readonly now: () => number
  /** The service that a plugin provides. */
  readonly find: Services['find']
  /** Makes the client that the plugins of a request or a stream see. */
  clientOf(parent: Parent): PluginClient
}

/** One operation, its arguments checked. */
interface Operation {
  readonly name: keyof Rest
  /** Path and query. */
  readonly path: string
  readonly feedIDs: readonly string[]
  readonly options: RequestOptions | undefined
  /** @default 'user', or 'plugin' for a parent */
  readonly purpose?: 'backfill'
}

/** Passes reports up through the stack; resolves with the reports that leave its top. */
type PassUp<Data> = (received: readonly Report[]) => Promise<Report<Data>[]>

/** The service answers 206 when it lacks some of the requested reports. */
const PARTIAL = 206

const userAgent = { 'user-agent': `sluice/${VERSION}` }

/** The requests of a client, or of its plugins on behalf of a parent. */
export class Requests<Data> implements Rest<Data> {
  readonly #context: RequestsContext<Data>
  readonly #parent: Parent | undefined
  /** The most reports of a page that the service is known to accept. */
  #mostReports = Number.POSITIVE_INFINITY

  constructor(context: RequestsContext<Data>, parent: Parent | undefined) {
    this.#context = context
    this.#parent = parent
  }

  async listFeeds(options?: RequestOptions): Promise<Feed[]> {
    const operation = { name: 'listFeeds', path: '/api/v1/feeds', feedIDs: [], options } as const
    return this.#run(operation, readFeeds)
  }

  async discover(filters?: CatalogueFilters): Promise<Catalogue> {
    const { path, refresh } = cataloguePath(filters)
    const cache = cacheOf(this.#context)
    const kept = refresh ? undefined : cache.fresh(path)
    if (filters?.signal?.aborted) throw filters.signal.reason
    if (kept !== undefined) return kept
    const { generation } = cache
    const options = filters?.signal && { signal: filters.signal }
    try {
      return await this.#run({ name: 'discover', path, feedIDs: [], options }, answer =>
        cache.keep(path, readCatalogue(answer), answer.headers, generation),
      )
    } catch (error) {
      const standIn = cache.standIn(path, error)
      if (standIn === undefined) throw error
      const seconds = Math.round(standIn.age / 1000)
      this.#context.log.warn?.(`discover: the answer of ${seconds} s ago stands in`)
      return standIn
    }
  }

  async getLatestReport(feedID: string, options?: RequestOptions): Promise<Report<Data>> {
    const feedIDs = this.#logValid([parseFeedID(feedID)])
    const path = `/api/v1/reports/latest?feedID=${feedIDs}`
    return this.#run({ name: 'getLatestReport', path, feedIDs, options }, passUpOne)
  }

  async getReportByTimestamp(
    feedID: string,
    timestamp: number,
    options?: RequestOptions,
  ): Promise<Report<Data>> {
    const feedIDs = this.#logValid([parseFeedID(feedID)])
    checkTime('timestamp', timestamp, feedIDs)
    const path = `/api/v1/reports?feedID=${feedIDs}&timestamp=${timestamp}`
    return this.#run({ name: 'getReportByTimestamp', path, feedIDs, options }, passUpOne)
  }

  async getReportsPage(
    feedID: string,
    startTime: number,
    limit?: number,
    options?: RequestOptions,
  ): Promise<ReportsPage<Data>> {
    const feedIDs = this.#logValid([parseFeedID(feedID)])
    checkTime('startTime', startTime, feedIDs)
    if (limit !== undefined) checkNumber('limit', limit, { min: 1, whole: true })
    const operation = pageOperation(feedIDs, startTime, limit, options)
    return this.#run(operation, async (answer, passUp) => {
      const received = readPage(answer, startTime, limit)
      // The next page begins where the service's page ends, whatever plugins leave out of this
      // page.
      const last = received.at(-1)
      const nextStartTime = last === undefined ? undefined : last.observationsTimestamp + 1
      const isPartial = answer.status === PARTIAL
      return Object.assign(await passUp(received), { nextStartTime, isPartial })
    })
  }

  async getReportsBulk(
    ids: string | readonly string[],
    timestamp: number,
    options?: RequestOptions,
  ): Promise<ReportsBulk<Data>> {
    const { log } = this.#context
    const feedIDs = this.#logValid(parseFeedIDs(ids))
    checkTime('timestamp', timestamp, feedIDs)
    const operation = bulkOperation(feedIDs, timestamp, options)
    return this.#run(operation, async (answer, passUp) => {
      const { reports: received, errors } = readBulk(answer)
      for (const { message } of errors)
        log.warn?.(`getReportsBulk: a report is left out: ${message}`)
      const missing = feedsWithout(received)
      if (missing.length > 0)
        log.warn?.(`getReportsBulk: no report at ${timestamp} for ${missing.join(', ')}`, {
          missing,
        })
      const reports = await passUp(received)
      return Object.assign(reports, { missing: feedsWithout(reports), errors })
    })

    function feedsWithout(some: readonly Report[]): string[] {
      const found = new Set(some.map(report => report.feedID))
      return feedIDs.filter(feedID => !found.has(feedID))
    }
  }

  /** A page of missing reports, for a stream: no stage has seen them. */
  async fetchPage(
    feedID: string,
    startTime: number,
    limit: number,
    signal: AbortSignal,
  ): Promise<FetchedPage> {
    const fetch = (most: number): Promise<FetchedPage> => {
      const operation = pageOperation([feedID], startTime, most, { signal })
      return this.#run({ ...operation, purpose: 'backfill' }, answer => {
        const page: FetchedPage = readGoodReports(answer, startTime, most)
        const facts = answer.status === PARTIAL ? { isPartial: true } : {}
        return Object.assign(page, most < limit ? { ...facts, limit: most } : facts)
      })
    }
    const most = Math.min(limit, this.#mostReports)
    try {
      return await fetch(most)
    } catch (thrown) {
      if (!isPageRefused(thrown, most)) throw thrown
      const page = await fetch(SHORT_PAGE)
      this.#mostReports = SHORT_PAGE
      return page
    }
  }

  /** The reports of several feeds at one time, for a stream: no stage has seen them. */
  fetchBulk(
    feedIDs: readonly string[],
    timestamp: number,
    signal: AbortSignal,
  ): Promise<readonly Report[]> {
    const operation = bulkOperation(feedIDs, timestamp, { signal })
    return this.#run(
      { ...operation, purpose: 'backfill' },
      answer => readBulk(answer, 'backfill').reports,
    )
  }

  /** Sends a plugin's own request down the stack. */
  async request(
    method: string,
    url: string,
    { operation, headers: given, body, signal: caller }: Parameters<PluginClient['request']>[2],
  ): Promise<RequestReply> {
    const life = createLifetime(this.#context.life, caller)
    const headers = { ...userAgent, ...Object.fromEntries(given) }
    const scope = new Scope(this.#context, operation, [], life)
    const made = this.#call(operation, method, url, headers, scope, 'plugin')
    const call = body === undefined ? made : { ...made, body }
    try {
      return (await abortable(this.#context.handler(call), life.signal)) as RequestReply
    } finally {
      life.end()
    }
  }

  /** Sends a request of the user's own to a path of the service. */
  async send(method: string, path: string, given?: SendRequestOptions): Promise<RequestReply> {
    const { body, ...options } = checkOptions('request', given, { body: true, signal: true })
    const signal = checkSignal('signal', options.signal)
    checkMethod('method', method)
    const url = this.#context.endpoint + checkPath('path', path)
    if (body !== undefined && typeof body !== 'string')
      throw new ValidationError(`body must be a string, not ${typeof body}`)
    if (body !== undefined && (method === 'GET' || method === 'HEAD'))
      throw new ValidationError(`body must not be given with the method ${method}`)
    const headers = new Headers({ accept: 'application/json' })
    if (body !== undefined) headers.set('content-type', 'application/json')
    const life = createLifetime(this.#context.life, signal)
    try {
      return await this.request(method, url, {
        operation: 'request',
        headers,
        ...(body === undefined ? {} : { body }),
        signal: life.signal,
      })
    } catch (error) {
      throw life.isOver ? life.reason : error
    } finally {
      life.end()
    }
  }

  #logValid(feedIDs: readonly string[]): readonly string[] {
    this.#context.log.debug?.(`feed ids are valid: ${feedIDs.join(', ')}`)
    return feedIDs
  }

  #call(
    operation: string,
    method: string,
    url: string,
    headers: Readonly<Record<string, string>>,
    scope: RequestScope,
    purpose: RequestCall['purpose'],
  ): RequestCall {
    return {
      kind: 'request',
      operation,
      purpose,
      parent: this.#parent,
      method,
      url,
      headers: new Headers(headers),
      signal: scope.signal,
      scope,
    }
  }

  /**
   * Sends the call of an operation down the stack, and resolves with the result of `read` for the
   * answer. Rejects with an error of this library, or with the reason of the caller's signal.
   */
  async #run<Result>(
    { name, path, feedIDs, options, purpose }: Operation,
    read: (answer: Answer, passUp: PassUp<Data>) => Result | Promise<Result>,
  ): Promise<Result> {
    const { endpoint, handler, plugins, log, table } = this.#context
    const caller = checkSignal('signal', checkOptions(name, options, { signal: true }).signal)
    const life = createLifetime(this.#context.life, caller)
    const scope = new Scope(this.#context, name, feedIDs, life)
    const accept = { accept: 'application/json', ...userAgent }
    const maker = this.#parent === undefined ? 'user' : 'plugin'
    const call = this.#call(name, 'GET', endpoint + path, accept, scope, purpose ?? maker)

    async function passUp(received: readonly Report[]): Promise<Report<Data>[]> {
      const passed: Report[] = []
      const sink = composeReport(plugins, report => passed.push(report), scope)
      for (const report of received) sink(report)
      await scope.finish()
      const { length } = passed
      log.info?.(`${name}: ${length} report${length === 1 ? '' : 's'} retrieved`, { feedIDs })
      return passed as Report<Data>[]
    }

    const started = performance.now()
    try {
      if (life.isOver) throw life.reason
      const reply = (await handler(call)) as RequestReply
      const result = await read(parseAnswer(call, reply, table), passUp)
      await scope.finish()
      log.info?.(`${name} succeeded in ${Math.round(performance.now() - started)} ms`)
      return result
    } catch (thrown) {
      if (life.isOver) throw life.reason
      const error = pluginError(`${describeCall(call)}: a plugin threw`, thrown)
      // A plugin that asks for the catalogue goes on without it.
      const say = maker === 'plugin' && name === 'discover' ? log.debug : log.error
      say?.(`${name} failed: ${error.message}`, { errorName: error.name, code: error.code })
      throw error
    } finally {
      life.end()
    }
  }
}

/** The answers about the catalogue that a client keeps. */
const caches = new WeakMap<object, CatalogueCache>()

function cacheOf(context: Pick<RequestsContext, 'now' | 'find'>): CatalogueCache {
  const cache =
    caches.get(context) ??
    new CatalogueCache(context.now, () => context.find(credentialsKey)?.generation ?? 0)
  caches.set(context, cache)
  return cache
}

/** The life of a request, as its plugins see it. */
class Scope implements RequestScope {
  readonly kind = 'request'
  readonly operation: string
  readonly feedIDs: readonly string[]
  readonly log: Log
  readonly defer: RequestScope['defer']
  declare readonly signal: AbortSignal
  declare readonly client: PluginClient
  readonly #context: RequestsContext
  readonly #life: Lifetime
  readonly #pending: Promise<unknown>[] = []

  constructor(
    context: RequestsContext,
    operation: string,
    feedIDs: readonly string[],
    life: Lifetime,
  ) {
    this.#context = context
    this.#life = life
    this.operation = operation
    this.feedIDs = feedIDs
    this.log = context.log
    this.defer = life.defer
    let client: PluginClient | undefined
    // They are made when they are first read, and are the scope's own: a plugin may copy a scope.
    Object.defineProperties(this, {
      signal: { enumerable: true, get: () => life.signal },
      client: { enumerable: true, get: () => (client ??= context.clientOf(this)) },
    })
  }

  readonly waitUntil = (work: Promise<unknown>): void => {
    work.catch(() => undefined)
    this.#pending.push(work)
  }

  /** Waits for the plugins' work, and throws its first error. */
  async finish(): Promise<void> {
    if (this.#pending.length === 0) return
    const { timeout } = this.#context
    const tooSlow = (): APIError =>
      new APIError(
        `the service has answered, and the plugins of the stack were not done with the answer within ${timeout} ms`,
        { code: 'API_TIMEOUT' },
      )
    const waitForEach = async (signal: AbortSignal): Promise<void> => {
      for (let work = this.#pending.shift(); work !== undefined; work = this.#pending.shift())
        await abortable(work, signal)
    }
    await withTimeout(timeout, tooSlow, waitForEach, this.#life)
  }
}

/** The methods that `fetch` sends. It would change the case of some, and refuse others. */
const checkMethod = oneOf('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS')

/** A path with its query, exactly as it is sent: signatures cover it. */
function checkPath(field: string, value: unknown): string {
  const path = checkText(field, value)
  // The credentials are for this service alone, so the path can't name another host.
  if (!path.startsWith('/'))
    throw new ValidationError(`${field} must begin with /: it belongs to the service of the client`)
  const { pathname, search } = new URL(`http://host${path}`)
  if (pathname + search !== path)
    throw new ValidationError(
      `${field} must be percent-encoded, as it is sent: without spaces, line breaks, # and ..`,
    )
  return path
}

async function passUpOne<Data>(answer: Answer, passUp: PassUp<Data>): Promise<Report<Data>> {
  const [report] = await passUp(readReport(answer))
  if (report !== undefined) return report
  throw new DataStreamsError(`${describeCall(answer.call)}: a plugin did not pass the report on`, {
    code: 'PLUGIN',
  })
}

function pageOperation(
  feedIDs: readonly string[],
  startTime: number,
  limit: number | undefined,
  options: RequestOptions | undefined,
): Operation {
  const path = `/api/v1/reports/page?feedID=${feedIDs}&startTimestamp=${startTime}`
  const name = 'getReportsPage'
  return { name, path: limit === undefined ? path : `${path}&limit=${limit}`, feedIDs, options }
}

function bulkOperation(
  feedIDs: readonly string[],
  timestamp: number,
  options: RequestOptions | undefined,
): Operation {
  const path = `/api/v1/reports/bulk?feedIDs=${feedIDs}&timestamp=${timestamp}`
  return { name: 'getReportsBulk', path, feedIDs, options }
}
