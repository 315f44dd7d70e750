import { connectionFacts, type Reply, type StreamCall } from '../../client/contract/call.js'
import type { Handler } from '../../client/contract/plugin.js'
import { sleep } from '../../core/async.js'
import { asError } from '../../core/errors.js'
import { createLifetime, withTimeout } from '../../core/lifetime.js'
import { InsufficientConnectionsError, OriginDiscoveryError } from './errors.js'
import { createFanOut, type FanOut } from './fan-out.js'
import { MAX_ORIGINS, parseOrigins } from './parse-origins.js'

/** The checked options of `haDiscovery`. */
export interface Settings {
  readonly connectTimeout: number
  readonly refreshInterval: number
  readonly stagger: number
}

/** Milliseconds before the list is requested again after a failure. */
const SOON = 30_000

/**
 * Opens a connection per origin. Resolves once one of them is open. Rejects if all of them end
 * before that.
 */
export function openOrigins(next: Handler, call: StreamCall, settings: Settings): Promise<Reply> {
  const fanOut = createFanOut(next, call)
  const life = createLifetime(call.signal)
  void fanOut.ended.then(() => life.end())
  followList(fanOut, { ...call, signal: life.signal }, settings).catch(() => undefined)
  return fanOut.opened
}

/**
 * Joins new origins of the list and leaves origins that are no longer listed, until the signal of
 * the call aborts.
 */
async function followList(fanOut: FanOut, call: StreamCall, settings: Settings): Promise<void> {
  const { scope, signal } = call
  let listed: readonly StreamCall[] = []
  let isDueSoon = false
  scope.defer(
    scope.connections.watch(({ type }) => {
      if (type === 'reconnecting' || type === 'failed') isDueSoon = true
      if (type === 'connected') leaveOthers(fanOut, call, listed)
    }),
  )
  for (let isFirst = true; ; isFirst = false) {
    const found = await findCalls(call, settings, isFirst)
    listed = found.calls ?? listed
    for (const [index, each] of listed.entries()) fanOut.join(each, index * settings.stagger)
    leaveOthers(fanOut, call, listed)
    const foundAt = performance.now()
    isDueSoon = found.isDueSoon
    do await sleep(Math.min(settings.refreshInterval, SOON), signal)
    while (!isDueSoon && performance.now() - foundAt < settings.refreshInterval)
  }
}

/**
 * Leaves the origins that are no longer listed, once a listed origin has an open connection or
 * there are too many origins.
 */
function leaveOthers(fanOut: FanOut, { scope }: StreamCall, listed: readonly StreamCall[]): void {
  const names = new Set(listed.map(call => connectionFacts(call).origin))
  const isOpen = (origin: string) => (scope.connections.of(origin)?.open ?? 0) > 0
  const isCarried = fanOut.origins.some(origin => names.has(origin) && isOpen(origin))
  for (const origin of fanOut.origins) {
    if (names.size === 0 || names.has(origin)) continue
    if (isCarried || fanOut.origins.length > 2 * MAX_ORIGINS) fanOut.leave(origin)
  }
}

interface Found {
  /** A call per origin. Undefined if the request for the list has failed. */
  readonly calls: readonly StreamCall[] | undefined
  /** Whether the list should be requested again soon. */
  readonly isDueSoon: boolean
}

/**
 * Makes a call per origin. Without a list it uses the configured URL at first, and later keeps the
 * known calls.
 */
async function findCalls(call: StreamCall, settings: Settings, isFirst: boolean): Promise<Found> {
  const { scope, url, urls } = call
  const { connectTimeout } = settings
  const alone = { ...call, connectTimeout }
  if (urls.length > 1)
    return { calls: urls.map(each => ({ ...alone, url: each, urls: [each] })), isDueSoon: false }
  try {
    const originIDs = await discoverOrigins(call, connectTimeout)
    scope.log.debug?.(`origins discovered: ${originIDs.join(', ')}`, { originIDs })
    if (isFirst && originIDs.length === 1) reportLoneOrigin(call)
    const calls = originIDs.map(originID => {
      const headers = new Headers(call.headers)
      headers.set('x-cll-origin', originID)
      return { ...alone, originID, headers }
    })
    return { calls, isDueSoon: false }
  } catch (thrown) {
    if (call.signal.aborted) throw thrown
    const cause = asError(thrown)
    const instead = isFirst
      ? 'the configured URL is used instead'
      : 'the connections stay as they are'
    const message = `the origins of ${new URL(url).host} could not be discovered: ${cause.message}; ${instead}`
    scope.log.warn?.(`fallback to static origins: ${message}`)
    if (isFirst) scope.events.emit('error', new OriginDiscoveryError(message, { cause }))
    return { calls: isFirst ? [alone] : undefined, isDueSoon: true }
  }
}

/** Requests the origins from the service. Rejects if the answer names no origin. */
async function discoverOrigins(call: StreamCall, timeout: number): Promise<readonly string[]> {
  const url = new URL('/', call.url)
  url.protocol = url.protocol === 'wss:' ? 'https:' : 'http:'
  const late = (): Error => new Error(`no answer within ${timeout} ms`)
  const facts = { operation: 'discoverOrigins', headers: call.headers }
  const { headers, repeatsSecret } = await withTimeout(
    timeout,
    late,
    signal => call.scope.client.request('HEAD', url.href, { ...facts, signal }),
    call.signal,
  )
  return parseOrigins(headers.get('x-cll-available-origins'), repeatsSecret)
}

function reportLoneOrigin({ scope, url }: StreamCall): void {
  const { hostname } = new URL(url)
  const isTestnet = hostname.includes('testnet-dataengine')
  const message = `${hostname} offers one origin only: there is no redundancy${isTestnet ? '; high availability exists on mainnet only' : ''}`
  scope.log.warn?.(message)
  scope.events.emit(
    'error',
    new InsufficientConnectionsError(message, { availableConnections: 1, requiredConnections: 2 }),
  )
}
