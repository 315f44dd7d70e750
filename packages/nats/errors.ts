import { DataStreamsError, type ErrorFacts, isStreamsError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'
import { isAPIError, isRefusal, withRemedy } from './refusals.js'

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

/**
 * The error for a failure of the NATS library. It is retryable, because a log that does not answer
 * may come back. A refusal is not, and says what has to be set.
 */
export function logError(what: string, thrown: unknown): DataStreamsError {
  if (isStreamsError(thrown, 'RELAY_LOG')) return thrown
  const cause = foreignCause(thrown)
  const isRetryable = !isRefusal(thrown)
  // The library takes the lack of an answer for servers without JetStream.
  const message =
    cause.name === 'JetStreamNotEnabled' && isRetryable
      ? 'JetStream does not answer: its servers have no quorum, or it is not enabled'
      : cause.message
  return new RelayLogError(`${what}: ${withRemedy(message, thrown)}`, { cause, isRetryable })
}

/** The error for a failed request about a stream. */
export function streamError(stream: string, thrown: unknown): DataStreamsError {
  if (isAPIError(thrown, 'noStream')) return noStream(stream, { isRetryable: true })
  const what = isRefusal(thrown) ? "can't be used" : 'did not answer'
  return logError(`stream ${stream} ${what}`, thrown)
}

/** The error for a stream that does not exist. */
export function noStream(stream: string, facts: ErrorFacts = {}): RelayLogError {
  const message = `stream ${stream} does not exist: a relay with create makes it, at its start and while it runs`
  return new RelayLogError(message, facts)
}

/** The same error, for those who try again all the same. */
export function passing({ message, cause }: RelayLogError): RelayLogError {
  return new RelayLogError(message, { cause, isRetryable: true })
}

/** True if trying again won't help: a refusal, or an error of ours that is not retryable. */
export function isFinal(thrown: unknown): boolean {
  return isStreamsError(thrown) ? !thrown.isRetryable : isRefusal(thrown)
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
