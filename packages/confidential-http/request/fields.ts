import { adviseName, kindOf, ValidationError } from 'sluice/core'
import { isBytes } from 'sluice/internal'

/** A value of the input and its path. `null` counts as absent and is undefined here. */
export interface Field {
  /** Holds names and indexes, never a value: `request.multiHeaders.Accept.values[0]`. */
  readonly path: string
  readonly value: unknown
}

/** The fields of a message. */
export interface Shape<Name extends string> {
  readonly typeName: string
  readonly fields: readonly Name[]
  /** Advice for unknown fields that are often given by mistake. */
  readonly hints?: Readonly<Record<string, string>>
}

/** Opens a message and rejects fields that the shape lacks. Returns a function that reads its fields. */
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

/** Opens an object that may have unknown properties. Returns a function that reads its fields. */
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

/** Rejects the one name that sets the prototype of an object if code assigns it carelessly. */
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

/** Reads a string that is required and not blank. */
export function readText(field: Field): string {
  if (field.value === undefined) throw new ValidationError(`${field.path} is required`)
  const text = readString(field)
  if (text.trim() === '') throw new ValidationError(`${field.path} must not be empty`)
  return text
}

/** Reads a boolean; absent is false. */
export function readBoolean({ path, value }: Field): boolean {
  if (value === undefined) return false
  if (typeof value !== 'boolean')
    throw new ValidationError(`${path} must be true or false, not ${nameKind(value)}`)
  return value
}

/** Names the kind of a value for errors, and the class of an object: a Map looks like an object without properties. */
export function nameKind(value: unknown): string {
  if (kindOf(value) !== 'object') return kindOf(value)
  if (isBytes(value)) return 'bytes'
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  const isClass = typeof name === 'string' && name !== 'Object' && /^\w{1,40}$/.test(name)
  return isClass ? name : 'an object'
}

/** Appends a property to a path: with a dot if its name is plain and short, else in brackets. */
function pathTo(parent: string, name: string): string {
  if (/^[\w$-]{1,64}$/.test(name)) return parent === '' ? name : `${parent}.${name}`
  const shown = name.length > 64 ? `${name.slice(0, 64)}…` : name
  return `${parent}[${JSON.stringify(shown).replace(/[^\x20-\x7e…]/g, escapeUnit)}]`
}

interface Entry extends Field {
  readonly name: string
}

/** Lists the own properties of a plain object that are not absent. Reads each once. */
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

/** True for object literals of any realm, and for objects without a prototype. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function checkTypeName(path: string, value: unknown, typeName: string): void {
  if (value !== typeName) throw new ValidationError(`${path} must be ${typeName}`)
}

/** Rejects the fields of a later version, because they would be lost. */
function checkUnknown(path: string, value: unknown): void {
  if (!Array.isArray(value) || value.length > 0)
    throw new ValidationError(`${path} must be empty: it holds fields that are not known here`)
}

function unknownField(path: string, name: string, shape: Shape<string>): ValidationError {
  const { hints = {}, fields } = shape
  const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  const hint = Object.hasOwn(hints, camel) ? hints[camel] : adviseName(camel, fields)
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
