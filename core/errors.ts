/** Maps an error code to the class of its errors. Other folders add their own codes. */
export interface ErrorClasses {
  /** An argument or option breaks a rule; the message names both. */
  VALIDATION: ValidationError
  /** A plugin threw or broke a rule; `cause` is what it threw. */
  PLUGIN: DataStreamsError
  /** The callee has been closed, or has ended. */
  CLOSED: DataStreamsError
  /** No other code fits; see `cause`. */
  UNKNOWN: DataStreamsError
}

/** Names a kind of failure. Messages may change between versions; codes do not. */
export type ErrorCode = keyof ErrorClasses

/** The class of a code; the base class for a code that is not in the map. */
export type ErrorOf<Code> = Code extends ErrorCode ? ErrorClasses[Code] : DataStreamsError

/** Facts that an error can carry in addition to its message. */
export interface ErrorFacts {
  /** The kind of failure. @default the code of the class, or `UNKNOWN` */
  readonly code?: ErrorCode
  /** The underlying error. Loggers show it, so it must hold nothing that is private. */
  readonly cause?: unknown
  /** Whether another attempt may succeed. @default the class's choice for the code, or false */
  readonly isRetryable?: boolean
}

const brand = Symbol.for('sluice.error')

/** The base class of this library's errors. */
export class DataStreamsError extends Error {
  /** The kind of failure. */
  readonly code: ErrorCode
  /** Whether another attempt may succeed. */
  declare readonly isRetryable: boolean

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, 'cause' in facts ? { cause: facts.cause } : undefined)
    this.code = facts.code ?? 'UNKNOWN'
    if (facts.isRetryable === true) this.isRetryable = true
    // Until the stack is read, V8 keeps every object alive whose method was running.
    void this.stack
  }

  /** The value for `JSON.stringify`: name, message and facts, without stack and cause. */
  toJSON(): object {
    const { name, message, isRetryable } = this
    return Object.assign({ name, message, isRetryable }, this)
  }

  static {
    // Where Error.prototype is frozen, its name can't be assigned to.
    Object.defineProperties(DataStreamsError.prototype, {
      name: { value: 'DataStreamsError', writable: true },
      isRetryable: { value: false, writable: true },
      [brand]: { value: true },
    })
    Object.defineProperty(DataStreamsError, Symbol.hasInstance, { value: isInstance })
  }
}

/** The test of `instanceof`. An error of a second copy of this library counts, by its name. */
function isInstance(this: typeof DataStreamsError, value: unknown): boolean {
  if (Object.prototype.isPrototypeOf.call(this.prototype, value as object)) return true
  // Each class of this library has a name of its own on its prototype.
  if (!Object.hasOwn(this.prototype, 'name') || !isStreamsError(value)) return false
  const { name } = this.prototype
  let each: Error = value
  while (!Object.hasOwn(each, brand) && each.name !== name) each = Object.getPrototypeOf(each)
  return each.name === name
}

/** An option or an argument breaks a rule. The message names the field and the rule. */
export class ValidationError extends DataStreamsError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { code: 'VALIDATION', ...facts })
  }

  static {
    ValidationError.prototype.name = 'ValidationError'
  }
}

/**
 * Returns a plugin's error unchanged if it is an error of this library. Wraps any other value in an
 * error with the code `PLUGIN` whose message begins with `where`.
 */
export function pluginError(where: string, thrown: unknown): DataStreamsError {
  if (isStreamsError(thrown)) return thrown
  return new DataStreamsError(`${where}: ${asError(thrown).message}`, {
    code: 'PLUGIN',
    cause: thrown,
  })
}

/**
 * True for an error of this library; with `code`, only for an error with that code. Unlike
 * `instanceof`, it also recognises errors of a second copy (ES module beside CommonJS).
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
 * Copies an error of another library or of the platform, so that it can be shown as a cause. The
 * copy has name, message, code and causes. Other fields are dropped: parse errors carry their
 * input, which may contain what we sent.
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

/** Returns an Error of any realm unchanged, and wraps any other thrown value. */
export function asError(thrown: unknown): Error {
  return isError(thrown) ? thrown : new Error(String(thrown), { cause: thrown })
}

/** True for an Error of any realm. `instanceof` is false for an Error of another realm. */
export function isError(thrown: unknown): thrown is Error {
  return (
    thrown instanceof Error ||
    /^\[object (Error|DOMException)\]$/.test(Object.prototype.toString.call(thrown))
  )
}
