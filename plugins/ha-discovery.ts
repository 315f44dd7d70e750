import { connectionFacts } from '../core/connection.js'
import {
  asError,
  InsufficientConnectionsError,
  OriginDiscoveryError,
  ValidationError,
} from '../core/errors.js'
import { createFanOut, type FanOut } from '../core/fan-out.js'
import { createLifetime } from '../core/lifetime.js'
import { checkNumber, MAX_TIMER } from '../core/options.js'
import { sleep } from '../core/sleep.js'
import type { Handler, Plugin, Reply, RequestCall, StreamCall } from '../core/types.js'

/** Options of `haDiscovery`. */
export interface HaDiscoveryOptions {
  /** Milliseconds a connection may take to open. @default 10000 */
  readonly connectTimeout?: number
  /** Milliseconds between two looks at the list of origins; after a reconnection it is looked at sooner. @default 600000 */
  readonly refreshInterval?: number
  /** Milliseconds between the first dials of two origins. @default 100 */
  readonly stagger?: number
}

type Settings = Required<HaDiscoveryOptions>

/** More origins than this are not connected to: a hostile list must not become a storm. */
const MAX_ORIGINS = 16
/** The list is asked for no more often than this, in milliseconds. */
const MIN_REFRESH = 30_000

/**
 * Opens one connection per origin of the service, each with its own retry, and keeps to the list as origins come and
 * go. Several URLs in `wsEndpoint` are the list; else the service is asked, by a signed `HEAD /`, and where it does not
 * tell, the one URL there is will do.
 */
export function haDiscovery(options: HaDiscoveryOptions = {}): Plugin<never> {
  const settings: Settings = {
    connectTimeout: checkNumber('connectTimeout', options.connectTimeout ?? 10_000, {
      min: 1,
      max: MAX_TIMER,
    }),
    refreshInterval: checkNumber('refreshInterval', options.refreshInterval ?? 600_000, {
      min: 1,
      max: MAX_TIMER,
    }),
    stagger: checkNumber('stagger', options.stagger ?? 100, { min: 0, max: MAX_TIMER }),
  }
  function perOrigin(next: Handler): Handler {
    return function dialEachOrigin(call) {
      return call.kind === 'stream' ? carry(next, call, settings) : next(call)
    }
  }
  return { name: 'ha-discovery', call: perOrigin }
}

async function carry(next: Handler, call: StreamCall, settings: Settings): Promise<Reply> {
  const fanOut = createFanOut(next, call)
  const life = createLifetime(call.signal)
  fanOut.ended.catch(() => life.end())
  keepToTheList(fanOut, next, { ...call, signal: life.signal }, settings).catch(() => undefined)
  return fanOut.ended
}

/** Joins and leaves origins as the list says, until the signal of the call aborts. */
async function keepToTheList(
  fanOut: FanOut,
  next: Handler,
  call: StreamCall,
  settings: Settings,
): Promise<void> {
  const { scope, signal } = call
  let lookSoon = false
  scope.defer(
    scope.watch(({ type }) => {
      if (type === 'reconnecting') lookSoon = true
    }),
  )
  for (let isFirst = true; ; isFirst = false) {
    const calls = await findCalls(next, call, settings, isFirst)
    for (const [index, each] of calls.entries()) fanOut.join(each, index * settings.stagger)
    leaveOthers(fanOut, calls)
    const looked = performance.now()
    lookSoon = false
    do await sleep(Math.min(settings.refreshInterval, MIN_REFRESH), signal)
    while (
      !lookSoon &&
      hasAll(fanOut, calls) &&
      performance.now() - looked < settings.refreshInterval
    )
  }
}

/** False where the connection of an origin has ended for good while others went on. */
function hasAll(fanOut: FanOut, calls: readonly StreamCall[]): boolean {
  return calls.every(call => fanOut.origins.includes(connectionFacts(call).origin))
}

/** An origin that is no longer offered is left once another one is open. */
function leaveOthers(fanOut: FanOut, calls: readonly StreamCall[]): void {
  if (calls.length === 0) return
  const offered = new Set(calls.map(call => connectionFacts(call).origin))
  for (const origin of fanOut.origins) {
    const othersOpen = [...fanOut.open].some(other => other !== origin && offered.has(other))
    if (!offered.has(origin) && othersOpen) fanOut.leave(origin)
  }
}

/** A call per origin. When the list can't be had, the configured URL at first, and later nothing new. */
async function findCalls(
  next: Handler,
  call: StreamCall,
  settings: Settings,
  isFirst: boolean,
): Promise<readonly StreamCall[]> {
  const { scope, url } = call
  const { connectTimeout } = settings
  if (scope.urls.length > 1) return scope.urls.map(each => ({ ...call, url: each, connectTimeout }))
  const alone = { ...call, connectTimeout }
  try {
    const origins = await discoverOrigins(next, call, connectTimeout)
    scope.log.debug?.(`origins discovered: ${origins.join(', ')}`, { origins })
    if (isFirst && origins.length === 1) announceLoneOrigin(call)
    return origins.map(origin => {
      const headers = new Headers(call.headers)
      headers.set('x-cll-origin', origin)
      return { ...alone, origin, headers }
    })
  } catch (thrown) {
    if (call.signal.aborted) throw thrown
    const cause = asError(thrown)
    const { host } = new URL(url)
    const instead = isFirst
      ? 'the configured URL is used instead'
      : 'the connections stay as they are'
    const message = `the origins of ${host} could not be discovered: ${cause.message}`
    scope.log.warn?.(`fallback to static origins: ${message}; ${instead}`)
    if (isFirst) scope.fail(new OriginDiscoveryError(`${message}; ${instead}`, { cause }))
    return isFirst ? [alone] : []
  }
}

/** Asks the service for its origins. Rejects when it does not say. */
async function discoverOrigins(
  next: Handler,
  call: StreamCall,
  timeout: number,
): Promise<readonly string[]> {
  const { log } = call.scope
  const life = createLifetime(call.signal)
  const timer = setTimeout(() => life.end(new Error(`no answer within ${timeout} ms`)), timeout)
  const url = new URL('/', call.url)
  url.protocol = url.protocol === 'wss:' ? 'https:' : 'http:'
  const { signal, defer } = life
  const request: RequestCall = {
    kind: 'request',
    operation: 'discoverOrigins',
    method: 'HEAD',
    url: url.href,
    headers: new Headers(call.headers),
    signal,
    scope: { kind: 'request', feedIDs: [], log, signal, defer, fail: () => undefined },
  }
  try {
    const reply = await next(request)
    return parseOrigins(
      reply.kind === 'request' ? reply.headers.get('x-cll-available-origins') : null,
    )
  } finally {
    clearTimeout(timer)
    life.end()
  }
}

/**
 * The origins in the header X-Cll-Available-Origins, `{001,002}` with or without braces. An id becomes a header itself, so
 * only what is harmless there is taken. Throws where nothing is left.
 */
export function parseOrigins(header: string | null): readonly string[] {
  if (header === null) throw new ValidationError('the answer has no X-Cll-Available-Origins')
  const ids = header
    .slice(0, 4096)
    .replace(/^\s*\{|\}\s*$/g, '')
    .split(',')
    .map(id => id.trim())
    .filter(id => /^[A-Za-z0-9._-]{1,64}$/.test(id))
  if (ids.length === 0) throw new ValidationError('X-Cll-Available-Origins names no origin')
  return [...new Set(ids)].slice(0, MAX_ORIGINS)
}

function announceLoneOrigin({ scope, url }: StreamCall): void {
  const { hostname } = new URL(url)
  const isTestnet = hostname.includes('testnet-dataengine')
  const message = `${hostname} offers one origin only: there is no redundancy${isTestnet ? '; high availability exists on mainnet only' : ''}`
  scope.log.warn?.(message)
  scope.fail(
    new InsufficientConnectionsError(message, { availableConnections: 1, requiredConnections: 2 }),
  )
}
