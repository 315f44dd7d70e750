import { abortable } from '../../core/async.js'
import { pluginError } from '../../core/errors.js'
import { createLifetime, type Lifetime } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import { checkOptions, checkSignal } from '../../core/options.js'
import { VERSION } from '../../core/version.js'
import type { DecoderTable, Report } from '../../report/report.js'
import { describeCall, type RequestCall, type RequestReply } from '../contract/call.js'
import { APIError } from '../contract/errors.js'
import type { Handler, Plugins } from '../contract/plugin.js'
import type { RequestOptions, Rest } from '../rest.js'
import type { PluginClient, RequestScope, StreamScope } from '../contract/scope.js'
import { composeReport } from '../stack.js'
import { type Answer, parseAnswer } from './answer.js'

type Parent = RequestScope | StreamScope

/** What a client's requests need of it. */
export interface RestParts<Data> {
  readonly endpoint: string
  readonly handler: Handler
  readonly plugins: Plugins
  readonly table: DecoderTable<Data>
  /** The client, for the plugins of a request or a stream. */
  clientOf(parent: Parent): PluginClient
  /** The request or stream for which a plugin makes the requests; undefined for the user's. */
  readonly parent?: Parent
  readonly log: Log
  /** Of the client. */
  readonly life: Lifetime
  /** Milliseconds that an attempt may take, and as many the work of plugins on the answer. */
  readonly timeout: number
}

/** One operation with its arguments, which have been checked. */
export interface Operation {
  readonly name: keyof Rest
  /** With the query. */
  readonly path: string
  readonly feedIDs: readonly string[]
  readonly options: RequestOptions | undefined
  /** @default by its parent */
  readonly purpose?: 'backfill'
}

/** Passes reports up through the stack; resolves with those that come out at the top. */
export type PassUp<Data> = (received: readonly Report[]) => Promise<Report<Data>[]>

/**
 * Runs one operation: sends its call down the stack, and resolves with what `read` makes of the answer. Rejects with an
 * error of this library, or with the reason of the caller's signal.
 */
export async function runRequest<Data, Result>(
  parts: RestParts<Data>,
  { name, path, feedIDs, options, purpose }: Operation,
  read: (answer: Answer, passUp: PassUp<Data>) => Result | Promise<Result>,
): Promise<Result> {
  const { endpoint, handler, plugins, log, parent } = parts
  const caller = checkSignal('signal', checkOptions(name, options, { signal: true }).signal)
  const life = createLifetime(parts.life, caller)
  const { signal } = life
  const { scope, finish } = createRequestScope(parts, feedIDs, life)
  const headers = new Headers({ accept: 'application/json', ...userAgent })
  const call: RequestCall = {
    kind: 'request',
    operation: name,
    purpose: purpose ?? (parent === undefined ? 'user' : 'plugin'),
    parent,
    method: 'GET',
    url: endpoint + path,
    headers,
    signal,
    scope,
  }

  async function passUp(received: readonly Report[]): Promise<Report<Data>[]> {
    const passed: Report[] = []
    const sink = composeReport(plugins, report => passed.push(report), scope)
    for (const report of received) sink(report)
    await finish()
    const { length } = passed
    log.info?.(`${name}: ${length} report${length === 1 ? '' : 's'} retrieved`, { feedIDs })
    return passed as Report<Data>[]
  }

  const started = performance.now()
  try {
    if (signal.aborted) throw signal.reason
    const reply = (await handler(call)) as RequestReply
    const result = await read(parseAnswer(call, reply, parts.table), passUp)
    await finish()
    log.info?.(`${name} succeeded in ${Math.round(performance.now() - started)} ms`)
    return result
  } catch (thrown) {
    if (signal.aborted) throw signal.reason
    const error = pluginError(`${describeCall(call)}: a plugin threw`, thrown)
    log.error?.(`${name} failed: ${error.message}`, { errorName: error.name, code: error.code })
    throw error
  } finally {
    life.end()
  }
}

/** Sends a request of a plugin's own down the stack. */
export async function runPluginRequest(
  parts: RestParts<unknown>,
  method: string,
  url: string,
  { operation, headers: given, signal: caller }: Parameters<PluginClient['request']>[2],
): Promise<RequestReply> {
  const life = createLifetime(parts.life, caller)
  const { signal } = life
  const { scope } = createRequestScope(parts, [], life)
  const headers = new Headers({ ...userAgent, ...Object.fromEntries(given) })
  const call: RequestCall = {
    kind: 'request',
    operation,
    purpose: 'plugin',
    parent: parts.parent,
    method,
    url,
    headers,
    signal,
    scope,
  }
  try {
    return (await abortable(parts.handler(call), signal)) as RequestReply
  } finally {
    life.end()
  }
}

const userAgent = { 'user-agent': `sluice/${VERSION}` }

function tooLong(timeout: number): APIError {
  return new APIError(
    `the service has answered, and the plugins of the stack were not done with the answer within ${timeout} ms`,
    { code: 'API_TIMEOUT' },
  )
}

/** `finish` waits for the work that plugins have given to `wait`, and throws its first error. */
function createRequestScope(
  { log, clientOf, timeout }: RestParts<unknown>,
  feedIDs: readonly string[],
  life: Lifetime,
): { readonly scope: RequestScope; readonly finish: () => Promise<void> } {
  const { signal, defer } = life
  const pending: Promise<unknown>[] = []

  function wait(work: Promise<unknown>): void {
    work.catch(() => undefined)
    pending.push(work)
  }
  async function finish(): Promise<void> {
    if (pending.length === 0) return
    const limit = createLifetime(life)
    const timer = setTimeout(() => limit.end(tooLong(timeout)), timeout)
    try {
      for (let work = pending.shift(); work !== undefined; work = pending.shift())
        await abortable(work, limit.signal)
    } finally {
      clearTimeout(timer)
      limit.end()
    }
  }
  let client: PluginClient | undefined
  const scope: RequestScope = {
    kind: 'request',
    feedIDs,
    log,
    signal,
    defer,
    get client() {
      client ??= clientOf(scope)
      return client
    },
    wait,
  }
  return { scope, finish }
}
