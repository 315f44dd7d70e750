import { asError } from '../core/errors.js'
import { processorUse } from '../platform/globals.js'

/** The copy of every function. Functions are not compared. */
export const FUNCTION: unique symbol = Symbol('a function')

/** A deep copy of an object, made to be compared. */
class Copy {
  readonly kind: string
  readonly fields: Map<string, unknown> = new Map()

  constructor(kind: string) {
    this.kind = kind
  }
}

/**
 * Copies a value deeply: its own enumerable fields, and the fields that a class computes. The copy
 * of an object is only for `findDifference` and `fieldOf`. A field that can't be read is copied as
 * the error of its getter.
 */
export function copyOf(value: unknown, seen: Map<object, Copy> = new Map()): unknown {
  if (typeof value === 'function') return FUNCTION
  if (typeof value !== 'object' || value === null) return value
  const known = seen.get(value)
  if (known !== undefined) return known
  const kind = Object.prototype.toString.call(value).slice(8, -1)
  const copy = new Copy(kind)
  seen.set(value, copy)
  const add = (name: string, read: () => unknown): void => {
    let field: unknown
    try {
      field = read()
    } catch (thrown) {
      field = `can't be read: ${describeThrown(thrown)}`
    }
    copy.fields.set(name, copyOf(field, seen))
  }
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteOffset, byteLength } = value
    add('bytes', () => Array.from(new Uint8Array(buffer, byteOffset, byteLength)))
    return copy
  }
  if (kind === 'Date') add('time', () => (value as Date).getTime())
  if (kind === 'Map' || kind === 'Set')
    for (const each of value as Map<unknown, unknown> | Set<unknown>)
      add(`entry ${copy.fields.size}`, () => each)
  if (kind === 'Error') add('message', () => (value as Error).message)
  for (const name of namesOf(value, kind))
    add(String(name), () => (value as Record<PropertyKey, unknown>)[name])
  return copy
}

/** The names of an object's enumerable fields, and of the getters of its class. */
function namesOf(value: object, kind: string): readonly PropertyKey[] {
  const names: PropertyKey[] = Reflect.ownKeys(value).filter(
    name => Object.getOwnPropertyDescriptor(value, name)?.enumerable === true,
  )
  if (kind !== 'Object') return names
  for (let each = Object.getPrototypeOf(value); each !== null; each = Object.getPrototypeOf(each))
    for (const [name, { get }] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (get !== undefined && name !== '__proto__') names.push(name)
  return [...new Set(names)]
}

/** The copy of a field of a copied object; undefined if there is none. */
export function fieldOf(copy: unknown, name: string): unknown {
  return copy instanceof Copy ? copy.fields.get(name) : undefined
}

/** The names of the fields of a copied object. */
export function fieldsOf(copy: unknown): readonly string[] {
  return copy instanceof Copy ? [...copy.fields.keys()] : []
}

/**
 * Says how a copied value differs from the copy that was expected. `path` names the value in the
 * text. Undefined if they are equal.
 */
export function findDifference(
  expected: unknown,
  found: unknown,
  path: string,
  seen: Set<unknown> = new Set(),
): string | undefined {
  if (expected instanceof Copy && found instanceof Copy && expected.kind === found.kind) {
    if (seen.has(expected)) return undefined
    seen.add(expected)
    for (const name of new Set([...expected.fields.keys(), ...found.fields.keys()])) {
      const field = path === '' ? name : `${path}.${name}`
      if (!found.fields.has(name)) return `${field} is missing`
      if (!expected.fields.has(name)) return `${field} is there, and should not be`
      const [one, other] = [expected.fields.get(name), found.fields.get(name)]
      const difference = findDifference(one, other, field, seen)
      if (difference !== undefined) return difference
    }
    return undefined
  }
  if (expected === found || (Number.isNaN(expected) && Number.isNaN(found))) return undefined
  return `${path === '' ? 'the value' : path} is ${show(found)}, not ${show(expected)}`
}

/** Writes a value or its copy for a message. */
export function show(value: unknown): string {
  if (value instanceof Copy) return value.kind
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'string')
    return JSON.stringify(value.length > 80 ? value.slice(0, 80) : value)
  if (typeof value === 'object' && value !== null)
    return Object.prototype.toString.call(value).slice(8, -1)
  return typeof value === 'function' ? 'a function' : String(value)
}

/** Names a thrown value in a message. */
export function describeThrown(thrown: unknown): string {
  const { name, message } = asError(thrown)
  const { code } = (thrown ?? {}) as { readonly code?: unknown }
  const title = typeof code === 'string' ? `${name} (${code})` : name
  return `${title}: ${message.length > 400 ? `${message.slice(0, 400)}…` : message}`
}

/** How a call that should return a promise ended. */
export type Outcome<Value> =
  | { readonly kind: 'resolved'; readonly value: Value }
  | { readonly kind: 'rejected'; readonly error: unknown }
  /** The call threw, and returned no promise. */
  | { readonly kind: 'thrown'; readonly error: unknown }
  /** The call returned something else than a promise. */
  | { readonly kind: 'returned'; readonly value: Value }
  /** The promise had not settled after so many milliseconds. */
  | { readonly kind: 'pending'; readonly ms: number }

/** Makes a call, and waits for its promise for so many milliseconds. */
export async function outcomeOf<Value>(
  call: () => PromiseLike<Value>,
  patience = 10_000,
): Promise<Outcome<Value>> {
  let promise: PromiseLike<Value>
  try {
    promise = call()
  } catch (error) {
    return { kind: 'thrown', error }
  }
  if (typeof promise?.then !== 'function') return { kind: 'returned', value: promise as Value }
  const late = startWait(patience)
  try {
    return await Promise.race([
      promise.then(
        (value): Outcome<Value> => ({ kind: 'resolved', value }),
        (error): Outcome<Value> => ({ kind: 'rejected', error }),
      ),
      late.over.then((): Outcome<Value> => ({ kind: 'pending', ms: patience })),
    ])
  } finally {
    late.end()
  }
}

/** Says how a call ended that should have resolved. */
export function describeOutcome(outcome: Outcome<unknown>): string {
  switch (outcome.kind) {
    case 'resolved':
      return `resolved with ${show(outcome.value)}`
    case 'rejected':
      return `rejected with ${describeThrown(outcome.error)}`
    case 'thrown':
      return `threw ${describeThrown(outcome.error)} instead of returning a promise`
    case 'returned':
      return `returned ${show(outcome.value)} instead of a promise`
    case 'pending':
      return `had not settled after ${outcome.ms} ms`
  }
}

/** The milliseconds of a part of a wait. */
const PART = 25

/**
 * Starts a wait of short parts. Where another process has the core meanwhile, one part takes
 * longer, and the program that is waited for still gets the time of the others.
 */
export function startWait(ms: number): { readonly over: Promise<void>; end(): void } {
  let timer: ReturnType<typeof setTimeout> | undefined
  const over = new Promise<void>(resolve => {
    function goOn(left: number): void {
      if (left <= 0) resolve()
      else timer = setTimeout(() => goOn(left - PART), Math.min(left, PART))
    }
    goOn(ms)
  })
  return { over, end: () => clearTimeout(timer) }
}

/** Waits. */
export const wait = (ms: number): Promise<void> => startWait(ms).over

/**
 * Starts to measure code that returns at once. The function that it returns gives the milliseconds
 * that the code took: without those in which another process had the core.
 */
export function startMeasuring(): () => number {
  const before = processorUse()
  const begin = performance.now()
  return () => {
    const took = performance.now() - begin
    const { ms, interruptions } = processorUse()
    return interruptions > before.interruptions ? Math.min(took, ms - before.ms) : took
  }
}

type Task = (...given: unknown[]) => void

/** Watches the timers that the program starts until `end`. They run as before. */
export class TimerWatch {
  /** The timers that run, with the line of the program that started each. */
  readonly #running = new Map<unknown, string>()
  readonly #platform = { setTimeout, setInterval, clearTimeout, clearInterval }

  constructor() {
    Object.assign(globalThis, {
      setTimeout: this.#starter(setTimeout, true),
      setInterval: this.#starter(setInterval, false),
      clearTimeout: this.#stopper(clearTimeout),
      clearInterval: this.#stopper(clearInterval),
    })
  }

  #starter(begin: typeof setTimeout | typeof setInterval, isOnce: boolean): unknown {
    const start = (task: Task, ms?: number, ...given: unknown[]): unknown => {
      const run: Task = (...passed) => {
        if (isOnce) this.#running.delete(timer)
        task(...passed)
      }
      const timer: unknown = begin(run, ms, ...given)
      this.#running.set(timer, originOf())
      return timer
    }
    // Among them is the form for `util.promisify`.
    return Object.defineProperties(start, Object.getOwnPropertyDescriptors(begin))
  }

  #stopper(end: (timer: never) => void): (timer: unknown) => void {
    return timer => {
      // Timers of Node may be cleared by their number, too.
      for (const each of this.#running.keys())
        if (each === timer || Number(each) === timer) this.#running.delete(each)
      end(timer as never)
    }
  }

  /**
   * Where each timer was started that still runs and keeps the process alive, after so many
   * milliseconds, or sooner if none does.
   */
  async leftAfter(ms: number): Promise<readonly string[]> {
    const left = (): readonly string[] =>
      [...this.#running].filter(([timer]) => isHolding(timer)).map(([, origin]) => origin)
    // The timer of a wait has ended when the wait is over, so it is not among them.
    for (let waited = 0; left().length > 0 && waited < ms; waited += 5) await wait(5)
    return left()
  }

  end(): void {
    Object.assign(globalThis, this.#platform)
  }
}

/** False for a timer of Node that was cleared by its own method, or that holds no process. */
function isHolding(timer: unknown): boolean {
  const { hasRef, _destroyed } = (timer ?? {}) as {
    readonly hasRef?: () => boolean
    readonly _destroyed?: boolean
  }
  return _destroyed !== true && hasRef?.call(timer) !== false
}

/** The line of the program that started a timer. */
function originOf(): string {
  const lines = (new Error().stack ?? '').split('\n').slice(1)
  const outside = lines.find(line => !/[\\/]testing[\\/]probe\.|node:internal/.test(line)) ?? ''
  return outside.trim().replace(/^at /, '')
}
