/** The class of the errors of each code. A folder adds those of its own errors. */
export interface ErrorClasses {
  /** An argument or option breaks a rule; the message names both. */
  VALIDATION: ValidationError
  /** A plugin threw or broke a rule; `cause` is what it threw. */
  PLUGIN: DataStreamsError
  /** What was asked has been closed, or has ended. */
  CLOSED: DataStreamsError
  /** None of the other codes; see `cause`. */
  UNKNOWN: DataStreamsError
}

/** A stable word for each kind of failure, to switch on. Messages may change between versions, codes do not. */
export type ErrorCode = keyof ErrorClasses

/** The class of the errors with a code; the base class for codes that are not in the map. */
export type ErrorOf<Code> = Code extends ErrorCode ? ErrorClasses[Code] : DataStreamsError

/** The facts that every error can carry besides its message. */
export interface ErrorFacts {
  /** The kind of failure. Default: `UNKNOWN`, or that of the class. */
  readonly code?: ErrorCode
  /** The underlying error. It is shown, so it holds nothing that must not be. */
  readonly cause?: unknown
  /** Whether another try may help. Default: false, or what the class says of the code. */
  readonly isRetryable?: boolean
}

const brand = Symbol.for('sluice.error')

/** The base of every error this library raises. */
export class DataStreamsError extends Error {
  /** The kind of failure. */
  readonly code: ErrorCode
  /** True where another try may help. */
  declare readonly isRetryable: boolean

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, 'cause' in facts ? { cause: facts.cause } : undefined)
    this.code = facts.code ?? 'UNKNOWN'
    if (facts.isRetryable === true) this.isRetryable = true
    // Until its stack is read, V8 has an error retain every object whose method was running, and all that these retain.
    void this.stack
  }

  /** What `JSON.stringify` writes: name, message and facts, without the stack and the cause. */
  toJSON(): object {
    const { name, message, isRetryable } = this
    return Object.assign({ name, message, isRetryable }, this)
  }

  static {
    DataStreamsError.prototype.name = 'DataStreamsError'
    const isRetryable = { value: false, writable: true }
    Object.defineProperty(DataStreamsError.prototype, 'isRetryable', isRetryable)
    Object.defineProperty(DataStreamsError.prototype, brand, { value: true })
  }
}

/** An option or another argument breaks a rule; the message names the field and the rule. */
export class ValidationError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'VALIDATION', ...facts })
  }

  static {
    ValidationError.prototype.name = 'ValidationError'
  }
}

/** What a plugin threw, if it is an error of this library; otherwise one of code `PLUGIN` that says where it was thrown. */
export function pluginError(where: string, thrown: unknown): DataStreamsError {
  if (isStreamsError(thrown)) return thrown
  return new DataStreamsError(`${where}: ${asError(thrown).message}`, {
    code: 'PLUGIN',
    cause: thrown,
  })
}

/**
 * True for an error of this library, whichever copy of it (ES module or CommonJS) raised it; with `code`, only for
 * that one. Use it instead of `instanceof` where two copies may live in one process.
 */
export function isStreamsError<Code extends ErrorCode | (string & {}) = ErrorCode>(
  error: unknown,
  code?: Code,
): error is ErrorOf<Code> {
  return (
    typeof error === 'object' &&
    error !== null &&
    (error as { [brand]?: true })[brand] === true &&
    (code === undefined || (error as DataStreamsError).code === code)
  )
}

/**
 * Copies what a library or the platform threw into a cause that can be shown: its name, message, code and causes. It drops
 * everything else, because parse errors carry the bytes they failed on, and those may echo what we sent.
 */
export function foreignCause(thrown: unknown, depth = 0): Error {
  if (!isError(thrown))
    return new Error(
      typeof thrown === 'string' ? thrown : `a thrown value of type ${typeof thrown}`,
    )
  const isLast = thrown.cause === undefined || depth === 4
  const cause = isLast ? {} : { cause: foreignCause(thrown.cause, depth + 1) }
  const clean = new Error(thrown.message, cause)
  const { code } = thrown as { code?: unknown }
  clean.name = String(thrown.name)
  clean.stack = String(thrown.stack)
  return typeof code === 'string' || typeof code === 'number'
    ? Object.assign(clean, { code })
    : clean
}

/** Returns a thrown value as an Error. An Error of any realm is returned unchanged. */
export function asError(thrown: unknown): Error {
  return isError(thrown) ? thrown : new Error(String(thrown), { cause: thrown })
}

/** True for an Error of any realm; `instanceof` is false for those of other realms. */
export function isError(thrown: unknown): thrown is Error {
  return (
    thrown instanceof Error ||
    /^\[object (Error|DOMException)\]$/.test(Object.prototype.toString.call(thrown))
  )
}
