import { ValidationError } from './errors.js'
import { kindOf } from './kind.js'
import { unknownName } from './unknown-name.js'

const nameOfBytes = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)?.get as () => string | undefined

/** True for a Uint8Array of any realm, and for its subclasses. */
export function isBytes(value: unknown): value is Uint8Array {
  return nameOfBytes.call(value) === 'Uint8Array'
}

// The checks of users' values. Each returns the value, or throws a ValidationError that names the field and the rule.

/** A URL of one of the schemes, without a user name, a password, a query or a fragment. */
export function checkURL(field: string, value: unknown, schemes: readonly string[]): string {
  const text = checkText(field, value)
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw new ValidationError(`${field} must be a URL`)
  }
  if (!schemes.includes(url.protocol)) {
    throw new ValidationError(
      `${field} must begin with ${schemes.map(scheme => `${scheme}//`).join(' or ')}, not ${url.protocol}`,
    )
  }
  if (url.username !== '' || url.password !== '')
    throw new ValidationError(`${field} must not hold a user name or password`)
  if (url.search !== '' || url.hash !== '')
    throw new ValidationError(`${field} must not have a query or a fragment`)
  return url.href.replace(/\/+$/, '')
}

/** One URL or several, separated by commas. */
export function checkURLs(
  field: string,
  value: unknown,
  schemes: readonly string[],
): readonly string[] {
  const parts = checkText(field, value).split(',')
  const urls = parts.map((part, index) =>
    checkURL(parts.length === 1 ? field : `${field}[${index}]`, part.trim(), schemes),
  )
  return [...new Set(urls)]
}

/** A string with more than white space in it. */
export function checkText(field: string, value: unknown): string {
  if (value === undefined || value === null) throw new ValidationError(`${field} is required`)
  if (typeof value !== 'string')
    throw new ValidationError(`${field} must be a string, not ${typeof value}`)
  if (value.trim() === '') throw new ValidationError(`${field} must not be empty`)
  return value
}

/** A number between `min` and `max`, which the rule may want to be whole or allow to be infinite. */
export function checkNumber(
  field: string,
  value: unknown,
  rule: {
    readonly min: number
    readonly max?: number
    readonly whole?: boolean
    readonly infinite?: boolean
  },
): number {
  if (typeof value !== 'number' || Number.isNaN(value)) {
    throw new ValidationError(
      `${field} must be a number, not ${Number.isNaN(value) ? 'NaN' : typeof value}`,
    )
  }
  const { min, max = Number.MAX_SAFE_INTEGER, whole = false, infinite = false } = rule
  if (infinite && value === Number.POSITIVE_INFINITY) return value
  if (!Number.isFinite(value)) throw new ValidationError(`${field} must be finite`)
  if (value < min) throw new ValidationError(`${field} must be at least ${min}, not ${value}`)
  if (value > max) throw new ValidationError(`${field} must be at most ${max}, not ${value}`)
  if (whole && !Number.isInteger(value))
    throw new ValidationError(`${field} must be a whole number, not ${value}`)
  return value
}

/** True or false. */
export function checkBoolean(field: string, value: unknown): boolean {
  if (typeof value !== 'boolean')
    throw new ValidationError(`${field} must be true or false, not ${typeof value}`)
  return value
}

/** An AbortSignal, or none. */
export function checkSignal(field: string, value: unknown): AbortSignal | undefined {
  if (value === undefined) return undefined
  const { aborted, addEventListener } = (value ?? {}) as Partial<AbortSignal>
  if (typeof aborted === 'boolean' && typeof addEventListener === 'function')
    return value as AbortSignal
  const isController = typeof value === 'object' && value !== null && 'abort' in value
  throw new ValidationError(
    `${field} must be an AbortSignal${isController ? ': give the signal of the controller' : ''}`,
  )
}

/** A Uint8Array of `length` bytes; of any length where none is given. */
export function checkBytes(field: string, value: unknown, length?: number): Uint8Array {
  if (!isBytes(value) || (length !== undefined && value.byteLength !== length))
    throw new ValidationError(
      `${field} must be a Uint8Array${length === undefined ? '' : ` of ${length} bytes`}`,
    )
  return value
}

/** An object, and no array. */
export function checkObject<Value extends object>(field: string, value: Value): Value {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ValidationError(`${field} must be an object, not ${kindOf(value)}`)
  return value
}

/** The names of an interface of options. The type checker wants each of them, and no other. */
export type OptionNames<Options> = { readonly [Name in keyof Options]-?: true }

/** An object of options without others than `names`, or none; errors say of what they are options. */
export function checkOptions<Options extends object>(
  of: string,
  value: Options | undefined,
  names: OptionNames<Options>,
): Options {
  if (value === undefined) return {} as Options
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ValidationError(`${of} takes an object of options, not ${kindOf(value)}`)
  for (const name of Object.keys(value))
    if (!Object.hasOwn(names, name)) throw unknownName('option', name, Object.keys(names), of)
  return value
}

/** The options of what has none: in JavaScript, someone may give some all the same. */
export type NoOptions = Readonly<Record<string, never>>

/** Those of the options that have one of the names. */
export function pickOptions<Options extends object, Names extends keyof Options>(
  options: Options,
  names: { readonly [Name in Names]: true },
): Pick<Options, Names> {
  const picked = (Object.keys(names) as Names[])
    .filter(name => name in options)
    .map(name => [name, options[name]])
  return Object.fromEntries(picked) as Pick<Options, Names>
}

/** A function. */
export function checkFunction(field: string, value: unknown): void {
  if (typeof value !== 'function')
    throw new ValidationError(`${field} must be a function, not ${typeof value}`)
}

/** The longest delay of a timer in milliseconds: longer ones would fire at once. */
export const MAX_TIMER = 2_147_483_647
