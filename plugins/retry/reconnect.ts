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
 * Opens a connection, and opens it again whenever it is lost. Resolves once it is open for the first time; the reply's
 * `ended` settles when the connection is given up, or its signal aborts.
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

/** Resolves with the end that the call's signal has caused; rejects when the connection is given up. */
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
  /** The last period in which other connections carried the stream, once it has reset the count of attempts. */
  let counted: Connections['carried']
  /** Rejections since it was open. */
  let rejections = 0
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
      isDegraded = false
      error = end.error
    } catch (thrown) {
      error = asError(thrown)
      if (signal.aborted) throw error
    }
    if (isCorrected(error)) continue
    const isAlone = connections.open === 0
    // A connection that was probed slowly while others carried the stream has all its attempts once it is needed. Connections
    // that brought junk did not carry it.
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
    if (isAlone && attempt > maxAttempts) {
      // The stream may continue without these feeds.
      if (rejections === 1 && rejectedFeeds(error).length > 0) throw error
      throw gaveUp(facts.host, attempt - 1, error)
    }
    // While others carry the stream, a connection is never given up, and need not hurry.
    const isProbing = isHopeless || attempt > maxAttempts
    const isSlow = isRejected && rejections > 1
    const delayMs = isSlow
      ? delays.beforeRejected(error)
      : isProbing
        ? delays.beforeProbe(error)
        : delays.beforeConnecting(attempt, reconnectInterval, error)
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
    // The loss of a short-lived connection does not wake one that waits alone: else two would wake each other for ever.
    const leastCarried = isAlone ? healthyAfter : 0
    await sleepUntilNeeded(call, delayMs, delays.askedFor(delayMs, error), leastCarried)
    attempt++
  }
}

function durationOf(carried: Connections['carried']): number {
  return carried === undefined ? 0 : (carried.until ?? performance.now()) - carried.since
}

/**
 * Sleeps for `ms`. After the `askedMs` that the service has asked for, it wakes when the last of the other connections is
 * lost, if they have carried the stream for `leastCarried` milliseconds.
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

function isRetryable(error: Error): boolean {
  return isStreamsError(error) && error.isRetryable
}

/** True where the service, or the proxy before it, has rejected the connection and another try will not help. */
function isRejection(error: Error): boolean {
  if (isRetryable(error)) return false
  const codes = ['AUTHENTICATION', 'WS_REFUSED', 'PROXY'] as const
  return codes.some(code => isStreamsError(error, code))
}

function gaveUp(host: string, attempts: number, cause: Error): WebSocketError {
  const often = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  return new WebSocketError(`gave up on ${host} after ${often} to reconnect: ${cause.message}`, {
    code: 'WS_GAVE_UP',
    cause,
  })
}
