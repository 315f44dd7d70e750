import { DataStreamsError, type ErrorFacts } from '../../core/errors.js'

/** The list of origins was not available; the static configuration is used instead. */
export class OriginDiscoveryError extends DataStreamsError {
  /** An error in place of the facts is the cause, as the official SDK has it. */
  constructor(message: string, given: ErrorFacts | Error = {}) {
    // By its message, since `instanceof` is false for an Error of another realm.
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
  /** How many connections can't be had. */
  readonly failedConnections: number
  /** How many there should be. */
  readonly totalConnections: number
}

/** Some connections of a highly available stream failed; the others carry on. */
export class PartialConnectionFailureError extends DataStreamsError {
  /** How many connections can't be had. */
  readonly failedConnections: number
  /** How many there should be. */
  readonly totalConnections: number

  constructor(message: string, facts: ErrorFacts & PartialFailureCounts)
  /** Takes the two counts in place of the facts, as the official SDK has it. */
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
  /** How many high availability needs: two. */
  readonly requiredConnections: number
}

/** Fewer connections are open than high availability needs. */
export class InsufficientConnectionsError extends DataStreamsError {
  /** How many connections are open. */
  readonly availableConnections: number
  /** How many high availability needs: two. */
  readonly requiredConnections: number

  constructor(message: string, facts: ErrorFacts & InsufficientCounts)
  /** Takes the two counts in place of the facts, as the official SDK has it. */
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
    /** The origins could not be learned; the configured URL is used. */
    ORIGIN_DISCOVERY: OriginDiscoveryError
    /** All connections failed for good, and the stream has ended. */
    ALL_CONNECTIONS_FAILED: MultiConnectionError
    /** Some connections can't be had; the others carry on. */
    CONNECTIONS_PARTIAL: PartialConnectionFailureError
    /** Fewer connections are open than high availability needs. */
    NO_REDUNDANCY: InsufficientConnectionsError
  }
}
