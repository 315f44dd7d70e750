import {
  connectionFacts,
  rejectedFeeds,
  type StreamCall,
  type StreamEnd,
  type StreamReply,
  WebSocketError,
} from '../../client/contract/call.js'
import type { Handler } from '../../client/contract/plugin.js'
import type { Connections } from '../../client/contract/scope.js'
import { createDeferred, sleep } from '../../core/async.js'
import { asError, isStreamsError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import { countCorrections, type Delays } from './delays.js'

/**
 * Opens a connection, and opens it again whenever it is lost. Resolves once the connection is open
 * for the first time. The reply's `ended` settles when the plugin gives the connection up, or when
 * the signal aborts.
 */
export function reconnect(next: Handler, call: StreamCall, delays: Delays): Promise<StreamReply> {
  const opened = createDeferred<StreamReply>()
  const ended = createDeferred<StreamEnd>()
  keepOpen(next, call, delays, () => opened.resolve({ kind: 'stream', ended: ended.promise })).then(
    ended.resolve,
    thrown => {
      const error = asError(thrown)
      opened.reject(error)
      ended.resolve({ lasted: 0, error })
    },
  )
  return opened.promise
}

/**
 * Keeps a connection open. Resolves when the call's signal has ended the connection. Rejects when
 * the connection is given up.
 */
async function keepOpen(
  next: Handler,
  call: StreamCall,
  delays: Delays,
  onOpen: () => void,
): Promise<StreamEnd> {
  const { scope, signal } = call
  const { connections } = scope
  const { healthyAfter } = delays.settings
  const { maxReconnectAttempts: maxAttempts, reconnectInterval } = call.reconnect
  const facts = connectionFacts(call)
  let isCorrected = countCorrections()
  /**
   * The value of `carried` that was checked last. Each period of `carried` resets the count of
   * attempts at most once.
   */
  let counted: Connections['carried']
  /** How many rejections there were since the connection was last open. */
  let rejections = 0
  /** How many answers that were not the service's came since the connection was last open. */
  let foreign = 0
  let isDegraded = false
  for (let attempt = 1; ; ) {
    let error: Error
    try {
      const reply = (await next(call)) as StreamReply
      onOpen()
      const end = await reply.ended
      if (signal.aborted) return end
      if (end.lasted >= healthyAfter) attempt = 1
      isCorrected = countCorrections()
      rejections = 0
      foreign = 0
      isDegraded = false
      error = end.error
    } catch (thrown) {
      error = asError(thrown)
      if (signal.aborted) throw error
    }
    if (isCorrected(error)) continue
    const isAlone = connections.open === 0
    // While other connections carried the stream, this connection was probed slowly. Now that the
    // stream needs it, it gets all its attempts back. A connection that sent malformed messages did
    // not carry the stream.
    const { carried } = connections
    if (isAlone && carried !== counted) {
      const isJunk = isStreamsError(error, 'WS_FRAME')
      if (!isJunk && durationOf(carried) >= healthyAfter) attempt = 1
      counted = carried
    }
    const isRejected = isRejection(error)
    if (isRejected) rejections++
    // A service that accepted this stream before may accept it again.
    const isHopeless = !isRetryable(error) && !(isRejected && carried !== undefined)
    if (isAlone && isHopeless) throw error
    // Whoever answers in place of the service may go away again, which uses up no attempt.
    const isHeldUp = isForeign(error) && carried !== undefined
    if (isAlone && attempt > maxAttempts && !isHeldUp) {
      // Keep the error that names the rejected feeds: the stream may continue without them.
      if (rejections === 1 && rejectedFeeds(error).length > 0) throw error
      throw gaveUp(facts.host, attempt - 1, error)
    }
    // While other connections carry the stream, this connection is never given up, and its attempts
    // may be slow.
    const isProbing = isHopeless || (attempt > maxAttempts && !isHeldUp)
    const isSlow = isRejected && rejections > 1
    const delayMs = isSlow
      ? delays.beforeRejected(error)
      : isProbing
        ? delays.beforeProbe(error)
        : delays.beforeConnecting(attempt + foreign, reconnectInterval, error)
    if (isSlow && !isDegraded) {
      isDegraded = true
      scope.events.emit('status', { type: 'degraded', ...facts, delayMs, error })
    }
    scope.log.warn?.(
      `reconnecting to ${facts.host}: attempt ${attempt} of ${maxAttempts} in ${Math.round(delayMs)} ms, after: ${error.message}`,
      { ...facts },
    )
    const status = { type: 'reconnecting', ...facts, attempt, maxAttempts, delayMs, error } as const
    scope.events.emit('status', status)
    // If no other connection is open now, another connection may open and be lost soon after. Its
    // loss must not end the wait. Otherwise two connections could wake each other forever.
    const leastCarried = isAlone ? healthyAfter : 0
    await sleepUntilNeeded(call, delayMs, delays.askedFor(delayMs, error), leastCarried)
    if (isHeldUp) foreign++
    else attempt++
  }
}

function durationOf(carried: Connections['carried']): number {
  return carried === undefined ? 0 : (carried.until ?? performance.now()) - carried.since
}

/**
 * Sleeps for `ms`. The first `askedMs`, which the service has asked for, are never cut short. After
 * them the sleep ends when the last other connection is lost, if other connections carried the
 * stream for `leastCarried` milliseconds.
 */
async function sleepUntilNeeded(
  { signal, scope: { connections } }: StreamCall,
  ms: number,
  askedMs: number,
  leastCarried: number,
): Promise<void> {
  const life = createLifetime(signal)
  const before = connections.carried
  life.defer(
    connections.watch(() => {
      const { open, carried } = connections
      const isLoss = open === 0 && carried !== undefined && (carried !== before || isOpen(before))
      if (isLoss && durationOf(carried) >= leastCarried) life.end()
    }),
  )
  try {
    if (askedMs > 0) await sleep(askedMs, signal)
    if (ms > askedMs) await sleep(ms - askedMs, life.signal)
  } catch {
    if (signal.aborted) throw signal.reason
  } finally {
    life.end()
  }
}

function isOpen(carried: Connections['carried']): boolean {
  return carried !== undefined && carried.until === undefined
}

function isForeign(error: Error): boolean {
  return isStreamsError(error, 'WS_REFUSED') && error.isForeign === true
}

function isRetryable(error: Error): boolean {
  return isStreamsError(error) && error.isRetryable
}

/**
 * Returns true if the service, or a proxy in front of it, has rejected the connection and another
 * attempt will not help.
 */
function isRejection(error: Error): boolean {
  if (isRetryable(error)) return false
  const codes = ['AUTHENTICATION', 'ENTITLEMENT', 'WS_REFUSED', 'PROXY'] as const
  return codes.some(code => isStreamsError(error, code))
}

function gaveUp(host: string, attempts: number, cause: Error): WebSocketError {
  const often = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  return new WebSocketError(`gave up on ${host} after ${often} to reconnect: ${cause.message}`, {
    code: 'WS_GAVE_UP',
    cause,
  })
}
