import { ValidationError } from '../../core/errors.js'
import { kindOf } from '../../core/kind.js'
import { isBytes } from '../../core/options.js'

/** A value of the input, and where it stood there. Its `null` and `undefined` are both undefined: absent. */
export interface Field {
  /** Names and indexes only, never a value: `request.multiHeaders.Accept.values[0]`. */
  readonly path: string
  readonly value: unknown
}

/** What a message may hold. */
export interface Shape<Name extends string> {
  readonly typeName: string
  readonly fields: readonly Name[]
  /** What to do about a field which is unknown here and often given by mistake. */
  readonly hints?: Readonly<Record<string, string>>
}

/** Opens a message. The function returned reads its fields; any that the shape lacks has been refused. */
export function openMessage<Name extends string>(
  field: Field,
  shape: Shape<Name>,
): (name: Name) => Field {
  const found = new Map<string, unknown>()
  for (const { name, path, value } of entriesOf(field)) {
    if (name === '$typeName') checkTypeName(path, value, shape.typeName)
    else if (name === '$unknown') checkUnknown(path, value)
    else {
      const known = shape.fields.find(each => each === name || snakeCase(each) === name)
      if (known === undefined) throw unknownField(path, name, shape)
      if (found.has(known))
        throw new ValidationError(
          `${pathTo(field.path, known)} is given twice, as ${known} and as ${snakeCase(known)}`,
        )
      found.set(known, value)
    }
  }
  return name => ({ path: pathTo(field.path, name), value: found.get(name) })
}

/** Opens an object that may have properties nobody here knows. The function returned reads the others. */
export function openProperties(field: Field): (name: string) => Field {
  const found = new Map(entriesOf(field).map(entry => [entry.name, entry.value]))
  return name => ({
    path: pathTo(field.path, name),
    value: found.get(name) ?? found.get(snakeCase(name)),
  })
}

/** Reads a map of at most `max` names, each value with `read`. */
export function readMap<Value>(
  field: Field,
  max: number,
  read: (entry: Field, name: string) => Value,
): { [name: string]: Value } {
  if (field.value === undefined) return {}
  const entries = entriesOf(field)
  if (entries.length > max)
    throw new ValidationError(`${field.path} must have at most ${max} names, not ${entries.length}`)
  return Object.fromEntries(
    entries.map(entry => [
      checkWellFormed(`a name in ${field.path}`, entry.name),
      read(entry, entry.name),
    ]),
  )
}

/** Refuses the one name by which a careless assignment would set an object's prototype, and be gone. */
export function checkMapName(path: string, name: string): void {
  if (name === '__proto__') throw new ValidationError(`${path} must not be used as a name`)
}

/** Reads a list of at most `max` elements, each with `read`. */
export function readList<Value>(
  field: Field,
  max: number,
  read: (element: Field) => Value,
): Value[] {
  const { path, value } = field
  if (value === undefined) return []
  if (!Array.isArray(value))
    throw new ValidationError(`${path} must be an array, not ${nameKind(value)}`)
  const { length } = value
  if (length > max)
    throw new ValidationError(`${path} must have at most ${max} elements, not ${length}`)
  return Array.from({ length }, (_, at) => read({ path: `${path}[${at}]`, value: value[at] }))
}

/** Reads a string, which may be empty. */
export function readString({ path, value }: Field): string {
  if (typeof value !== 'string')
    throw new ValidationError(`${path} must be a string, not ${nameKind(value)}`)
  return checkWellFormed(path, value)
}

/** Reads a string that is there and not empty. */
export function readText(field: Field): string {
  if (field.value === undefined) throw new ValidationError(`${field.path} is required`)
  const text = readString(field)
  if (text.trim() === '') throw new ValidationError(`${field.path} must not be empty`)
  return text
}

/** Reads true or false, which is what an absent one is. */
export function readBoolean({ path, value }: Field): boolean {
  if (value === undefined) return false
  if (typeof value !== 'boolean')
    throw new ValidationError(`${path} must be true or false, not ${nameKind(value)}`)
  return value
}

/** What kind of value it is; of an object also its class, as a Map looks like an object without properties. */
export function nameKind(value: unknown): string {
  if (kindOf(value) !== 'object') return kindOf(value)
  if (isBytes(value)) return 'bytes'
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  const isClass = typeof name === 'string' && name !== 'Object' && /^\w{1,40}$/.test(name)
  return isClass ? name : 'an object'
}

/** The path of a property: a dot and its name, or brackets where it has none that is plain and short. */
export function pathTo(parent: string, name: string): string {
  if (/^[\w$-]{1,64}$/.test(name)) return parent === '' ? name : `${parent}.${name}`
  const shown = name.length > 64 ? `${name.slice(0, 64)}…` : name
  return `${parent}[${JSON.stringify(shown).replace(/[^\x20-\x7e…]/g, escapeUnit)}]`
}

interface Entry extends Field {
  readonly name: string
}

/** The own properties of a plain object; absent ones are left out, and each is read once. */
function entriesOf({ path, value }: Field): Entry[] {
  const subject = path === '' ? 'input' : path
  if (value === undefined) throw new ValidationError(`${subject} is required`)
  if (!isPlainObject(value))
    throw new ValidationError(`${subject} must be a plain object, not ${nameKind(value)}`)
  return Object.keys(value).flatMap(name => {
    const own = value[name] ?? undefined
    return own === undefined ? [] : [{ name, path: pathTo(path, name), value: own }]
  })
}

/** True for what `{}` makes, in whatever realm, and for objects without a prototype. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function checkTypeName(path: string, value: unknown, typeName: string): void {
  if (value !== typeName) throw new ValidationError(`${path} must be ${typeName}`)
}

/** What a later version of the message added can't be sent on, and must not get lost. */
function checkUnknown(path: string, value: unknown): void {
  if (!Array.isArray(value) || value.length > 0)
    throw new ValidationError(`${path} must be empty: it holds fields that are not known here`)
}

function unknownField(path: string, name: string, shape: Shape<string>): ValidationError {
  const { hints = {}, fields } = shape
  const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  const hint = Object.hasOwn(hints, camel) ? hints[camel] : `there is ${fields.join(', ')}`
  return new ValidationError(`${path} is unknown: ${hint}`)
}

function checkWellFormed(path: string, text: string): string {
  if (/\p{Surrogate}/u.test(text))
    throw new ValidationError(`${path} must be well-formed Unicode: it has half a surrogate pair`)
  return text
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
