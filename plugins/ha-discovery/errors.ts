import { DataStreamsError, type ErrorFacts } from '../../core/errors.js'

/** The request for the list of origins has failed. The stream uses the configured URL instead. */
export class OriginDiscoveryError extends DataStreamsError {
  /** As in the official SDK, an error may be given instead of the facts, and becomes the cause. */
  constructor(message: string, given: ErrorFacts | Error = {}) {
    // Recognize an Error by its message: `instanceof` is false for an Error of another realm.
    const facts = 'message' in given ? { cause: given } : given
    super(message, { code: 'ORIGIN_DISCOVERY', ...facts })
  }

  static {
    OriginDiscoveryError.prototype.name = 'OriginDiscoveryError'
  }
}

/** Every connection of a highly available stream failed. */
export class MultiConnectionError extends DataStreamsError {
  /** One cause per origin. */
  readonly errors: readonly unknown[]

  constructor(message: string, facts: ErrorFacts & { readonly errors?: readonly unknown[] } = {}) {
    super(message, { code: 'ALL_CONNECTIONS_FAILED', ...facts })
    this.errors = facts.errors ?? []
  }

  static {
    MultiConnectionError.prototype.name = 'MultiConnectionError'
  }
}

/** The counts of a `PartialConnectionFailureError`. */
interface PartialFailureCounts {
  /** How many connections have failed. */
  readonly failedConnections: number
  /** How many connections there should be. */
  readonly totalConnections: number
}

/** Some connections of a highly available stream failed. The others carry on. */
export class PartialConnectionFailureError extends DataStreamsError {
  /** How many connections have failed. */
  readonly failedConnections: number
  /** How many connections there should be. */
  readonly totalConnections: number

  constructor(message: string, facts: ErrorFacts & PartialFailureCounts)
  /** As in the official SDK, takes the two counts in place of the facts. */
  constructor(message: string, failedConnections: number, totalConnections: number)
  constructor(
    message: string,
    given: number | (ErrorFacts & PartialFailureCounts),
    totalConnections = Number.NaN,
  ) {
    const facts = typeof given === 'number' ? { failedConnections: given, totalConnections } : given
    super(message, { code: 'CONNECTIONS_PARTIAL', ...facts })
    this.failedConnections = facts.failedConnections
    this.totalConnections = facts.totalConnections
  }

  static {
    PartialConnectionFailureError.prototype.name = 'PartialConnectionFailureError'
  }
}

/** The counts of an `InsufficientConnectionsError`. */
interface InsufficientCounts {
  /** How many connections are open. */
  readonly availableConnections: number
  /** How many connections high availability needs: two. */
  readonly requiredConnections: number
}

/** Fewer connections are open than high availability needs. */
export class InsufficientConnectionsError extends DataStreamsError {
  /** How many connections are open. */
  readonly availableConnections: number
  /** How many connections high availability needs: two. */
  readonly requiredConnections: number

  constructor(message: string, facts: ErrorFacts & InsufficientCounts)
  /** As in the official SDK, takes the two counts in place of the facts. */
  constructor(message: string, availableConnections: number, requiredConnections: number)
  constructor(
    message: string,
    given: number | (ErrorFacts & InsufficientCounts),
    requiredConnections = Number.NaN,
  ) {
    const facts =
      typeof given === 'number' ? { availableConnections: given, requiredConnections } : given
    super(message, { code: 'NO_REDUNDANCY', ...facts })
    this.availableConnections = facts.availableConnections
    this.requiredConnections = facts.requiredConnections
  }

  static {
    InsufficientConnectionsError.prototype.name = 'InsufficientConnectionsError'
  }
}

/** The codes of these errors. */
declare module '../../core/errors.js' {
  interface ErrorClasses {
    /**
     * The request for the list of origins has failed. The stream uses the configured URL instead.
     */
    ORIGIN_DISCOVERY: OriginDiscoveryError
    /** All connections failed for good, and the stream has ended. */
    ALL_CONNECTIONS_FAILED: MultiConnectionError
    /** Some connections have failed. The others carry on. */
    CONNECTIONS_PARTIAL: PartialConnectionFailureError
    /** Fewer connections are open than high availability needs. */
    NO_REDUNDANCY: InsufficientConnectionsError
  }
}
