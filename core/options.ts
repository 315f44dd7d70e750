import { ValidationError } from './errors.js'

/** Names the kind of a value, for error messages. */
export function kindOf(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value
}

/** Longer names are cut in messages: a long name may be a key in the wrong place. */
const MAX_SHOWN = 40

/**
 * Makes the error for a name that is not among `known`, for example
 * `unknown option 'colr' of paint; did you mean 'color'?`. Without a similar name it lists all.
 */
export function unknownName(
  kind: string,
  name: string,
  known: readonly string[],
  of?: string,
): ValidationError {
  const shown = name.length > MAX_SHOWN ? `${name.slice(0, 8)}…` : name
  const where = of === undefined ? '' : ` of ${of}`
  return new ValidationError(`unknown ${kind} '${shown}'${where}; ${adviseName(shown, known)}`)
}

/** Proposes the most similar known name, or lists all known names. */
export function adviseName(name: string, known: readonly string[]): string {
  const meant = nearest(name.slice(0, MAX_SHOWN), known)
  return meant === undefined
    ? `there is ${known.length === 0 ? 'none' : known.join(', ')}`
    : `did you mean '${meant}'?`
}

/**
 * The known name with the fewest edits, ignoring case; undefined if more than `most` letters, or
 * half of them, differ.
 */
export function nearest(name: string, known: readonly string[], most = 3): string | undefined {
  let best: string | undefined
  let least = most + 1
  for (const each of known) {
    const edits = countEdits(name.toLowerCase(), each.toLowerCase())
    if (edits >= least || 2 * edits > Math.max(name.length, each.length)) continue
    best = each
    least = edits
  }
  return best
}

/** Counts the letters to add, remove, replace or swap that turn one text into the other. */
function countEdits(one: string, other: string): number {
  let twoAbove: number[] = []
  let above = Array.from({ length: other.length + 1 }, (_, column) => column)
  for (let row = 1; row <= one.length; row++) {
    const edits = [row]
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1]
      const isSwap = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      edits[column] = Math.min(
        (above[column] ?? 0) + 1,
        (edits[column - 1] ?? 0) + 1,
        (above[column - 1] ?? 0) + (isSame ? 0 : 1),
        isSwap ? (twoAbove[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    twoAbove = above
    above = edits
  }
  return above[other.length] ?? 0
}

// The checks of users' values. Each returns the value, or throws a ValidationError that names field
// and rule.

/** A string that is not blank. */
export function checkText(field: string, value: unknown): string {
  if (value === undefined || value === null) throw new ValidationError(`${field} is required`)
  if (typeof value !== 'string')
    throw new ValidationError(`${field} must be a string, not ${typeof value}`)
  if (value.trim() === '') throw new ValidationError(`${field} must not be empty`)
  return value
}

/** The rule of a number. */
export interface NumberRule {
  /** The least value. */
  readonly min: number
  /** The greatest value. @default the greatest safe integer */
  readonly max?: number
  /** Whether the number must be whole. @default false */
  readonly whole?: boolean
  /** Whether the number may be `Infinity`. @default false */
  readonly infinite?: boolean
}

/** A number that follows a rule. */
export function checkNumber(field: string, value: unknown, rule: NumberRule): number {
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

/** An AbortSignal, or undefined. */
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

/** An object, but not an array. */
export function checkObject<Value extends object>(field: string, value: Value): Value {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ValidationError(`${field} must be an object, not ${kindOf(value)}`)
  return value
}

/**
 * Checks the value of an option, and returns it. Throws a ValidationError that names the field and
 * the rule.
 */
export type Rule<Value> = (field: string, value: unknown) => Value

/** A rule for each option of an interface. */
export type Schema<Options> = {
  readonly [Name in keyof Options]-?: Rule<Options[Name] | undefined>
}

/** The names of the options of an interface. */
export type OptionNames<Options> = { readonly [Name in keyof Options]-?: unknown }

type Result<Given> = Given extends Rule<infer Value> ? Value : never
type Optional<Rules> = {
  [Name in keyof Rules]: undefined extends Result<Rules[Name]> ? Name : never
}[keyof Rules]

/** The checked options. An option is optional where its rule may return undefined. */
export type Checked<Rules> = {
  readonly [Name in Exclude<keyof Rules, Optional<Rules>>]: Result<Rules[Name]>
} & {
  readonly [Name in Optional<Rules>]?: Exclude<Result<Rules[Name]>, undefined>
}

/**
 * Checks an object of options by its schema, and fills in the defaults. Errors name the function,
 * `of`. The text `before` stands before the names of fields: `color.` for the options in `color`.
 */
export function readOptions<Options extends object, Rules extends Schema<Options>>(
  of: string,
  given: Options | undefined,
  rules: Rules,
  before = '',
): Checked<Rules> {
  const options = checkOptions(of, given, rules) as Readonly<Record<string, unknown>>
  const checked: Record<string, unknown> = {}
  for (const [name, rule] of Object.entries<Rule<unknown>>(rules)) {
    const value = rule(before + name, options[name])
    if (value !== undefined) checked[name] = value
  }
  return checked as Checked<Rules>
}

/** A type from which TypeScript infers nothing: `NoInfer`, which 5.3 lacks. */
type Exact<Value> = [Value][Value extends unknown ? 0 : never]

/** The rule of an option with a default. */
export function withDefault<Value>(fallback: Exact<Value>, rule: Rule<Value>): Rule<Value> {
  return (field, value) => rule(field, value === undefined ? fallback : value)
}

/** The rule of an option without a default. */
export function optional<Value>(rule: Rule<Value>): Rule<Value | undefined> {
  return (field, value) => (value === undefined ? undefined : rule(field, value))
}

/** The rule of a number. */
export function number(rule: NumberRule): Rule<number> {
  return (field, value) => checkNumber(field, value, rule)
}

/** The rule of one of several words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): Rule<Word> {
  return (field, value) => {
    const word = words.find(each => each === value)
    if (word !== undefined) return word
    const quoted = words.map(each => `'${each}'`)
    const list = [quoted.slice(0, -1).join(', '), quoted.at(-1)].filter(Boolean).join(' or ')
    const shown = typeof value === 'string' ? `'${value.slice(0, 40)}'` : kindOf(value)
    throw new ValidationError(`${field} must be ${list}, not ${shown}`)
  }
}

/** The rule of an option that is checked elsewhere. */
export function unchecked<Value>(_field: string, value: unknown): Value {
  return value as Value
}

/**
 * An object of options without unknown names; an empty object for undefined. Errors name the
 * function, `of`.
 */
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

/** The type of options for a function without options: JavaScript callers may still pass some. */
export type NoOptions = Readonly<Record<string, never>>

/** The options that have one of the names. */
export function pickOptions<Options extends object, Names extends keyof Options>(
  options: Options,
  names: { readonly [Name in Names]: unknown },
): Pick<Options, Names> {
  const picked = (Object.keys(names) as Names[])
    .filter(name => name in options)
    .map(name => [name, options[name]])
  return Object.fromEntries(picked) as Pick<Options, Names>
}

/** A function. */
export function checkFunction<Value>(field: string, value: unknown): Value {
  if (typeof value !== 'function')
    throw new ValidationError(`${field} must be a function, not ${typeof value}`)
  return value as Value
}

/** The longest delay of a timer, in milliseconds. A timer with a longer delay fires at once. */
export const MAX_TIMER = 2_147_483_647
