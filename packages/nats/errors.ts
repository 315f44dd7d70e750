import { DataStreamsError, type ErrorFacts, isStreamsError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

/**
 * The error for a log (a stream of NATS JetStream) that can't be reached, does not exist, or has
 * unsuitable settings.
 */
export class RelayLogError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'RELAY_LOG', ...facts })
  }

  static {
    RelayLogError.prototype.name = 'RelayLogError'
  }
}

/** The error codes of the server, by the names that this package gives them. */
const codes = {
  noLeader: [10_008],
  otherSettings: [10_013, 10_148],
  noConsumer: [10_014],
  noMessage: [10_037],
  streamExists: [10_058],
  noStream: [10_059],
  wrongRevision: [10_071],
} as const

/** True if `thrown` is an answer of the server with this error. */
export function isAPIError(thrown: unknown, error: keyof typeof codes): boolean {
  const { code } = (thrown ?? {}) as { readonly code?: unknown }
  return codes[error].some(each => each === code)
}

/**
 * The error for a failure of the NATS library. It is retryable, because a log that does not answer
 * may come back.
 */
export function logError(what: string, thrown: unknown): DataStreamsError {
  if (isStreamsError(thrown, 'RELAY_LOG')) return thrown
  const cause = foreignCause(thrown)
  // The library takes the lack of an answer for servers without JetStream.
  const isUnanswered = (thrown as Error | undefined)?.name === 'JetStreamNotEnabled'
  const message = isUnanswered
    ? 'JetStream does not answer: its servers have no quorum, or it is not enabled'
    : cause.message
  return new RelayLogError(`${what}: ${message}`, { cause, isRetryable: true })
}

/** The error for a failed request about a stream. */
export function streamError(stream: string, thrown: unknown): DataStreamsError {
  if (!isAPIError(thrown, 'noStream')) return logError(`stream ${stream} did not answer`, thrown)
  const message = `stream ${stream} does not exist: a relay with create makes it, at its start and while it runs`
  return new RelayLogError(message, { isRetryable: true })
}

/** Milliseconds between two errors of one kind, by default. */
const ERROR_INTERVAL = 10_000

/** Returns a function that is true for each kind of error once in so many milliseconds. */
export function createErrorLimit(interval: number = ERROR_INTERVAL): (kind: string) => boolean {
  const saidAt = new Map<string, number>()
  return function maySay(kind) {
    const now = performance.now()
    if (now - (saidAt.get(kind) ?? Number.NEGATIVE_INFINITY) < interval) return false
    saidAt.set(kind, now)
    return true
  }
}
