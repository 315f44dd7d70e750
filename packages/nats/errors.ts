import { DataStreamsError, type ErrorFacts, isStreamsError } from 'sluice/core'
import { foreignCause } from 'sluice/internal'

/** The log, a stream of NATS JetStream, cannot be reached, is missing, or has settings that do not serve. */
export class RelayLogError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'RELAY_LOG', ...facts })
  }

  static {
    RelayLogError.prototype.name = 'RelayLogError'
  }
}

/** The error for a failure of the library of NATS: another try may help, since a log that is away comes back. */
export function logError(what: string, thrown: unknown): DataStreamsError {
  if (isStreamsError(thrown, 'RELAY_LOG')) return thrown
  const cause = foreignCause(thrown)
  return new RelayLogError(`${what}: ${cause.message}`, { cause, isRetryable: true })
}
