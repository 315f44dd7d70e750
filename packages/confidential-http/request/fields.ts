import { adviseName, kindOf, ValidationError } from 'sluice/core'
import { decodeBase64, isBytes } from 'sluice/internal'

const BEGIN = '-----BEGIN CERTIFICATE-----'

/** Reads bytes or their base64. Returns a copy. */
export function readBytes(field: Field): Uint8Array {
  const { path, value } = field
  if (isBytes(value)) return new Uint8Array(value)
  if (typeof value !== 'string')
    throw new ValidationError(`${path} must be a Uint8Array or base64, not ${nameKind(value)}`)
  const bytes = parseBase64(value)
  if (bytes === undefined) throw new ValidationError(`${path} must be valid base64`)
  return bytes
}

/**
 * Reads certificates in PEM from bytes, text or base64. Returns the bytes of the PEM, or no bytes
 * if no certificate is given.
 */
export function readCertificate(field: Field): Uint8Array {
  const { path, value } = field
  if (value === undefined || value === '') return new Uint8Array()
  if (typeof value !== 'string' && !isBytes(value))
    throw new ValidationError(
      `${path} must be PEM, as a Uint8Array, a string or base64, not ${nameKind(value)}`,
    )
  const pem = typeof value === 'string' ? parsePem(readString(field)) : new Uint8Array(value)
  if (pem.byteLength === 0 && typeof value !== 'string') return pem
  if (!new TextDecoder().decode(pem).includes(BEGIN))
    throw new ValidationError(`${path} must hold a certificate in PEM: no ${BEGIN} is in it`)
  return pem
}

function parsePem(text: string): Uint8Array {
  if (text.includes(BEGIN)) return new TextEncoder().encode(text)
  // Many tools insert line breaks into base64, so white space is removed.
  return parseBase64(text.replace(/\s+/g, '')) ?? new Uint8Array()
}

/**
 * Decodes base64 or base64url, with or without padding. Returns undefined for any other text, and
 * if unused bits are not zero.
 */
export function parseBase64(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) return undefined
  const digits = text.replace(/=+$/, '')
  const isPadded = digits.length < text.length
  if (isPadded && text.length % 4 !== 0) return undefined
  const standard = digits.replaceAll('-', '+').replaceAll('_', '/')
  return decodeBase64(standard.padEnd(Math.ceil(digits.length / 4) * 4, '='))
}

/**
 * A value of the input, with its path. An input of `null` counts as absent, so the value is
 * undefined.
 */
export interface Field {
  /**
   * The path of names and indexes, such as `request.multiHeaders.Accept.values[0]`. It never
   * contains a value.
   */
  readonly path: string
  readonly value: unknown
}

/** The description of a message: its fields, and a reader for each field. */
export interface Shape<Readers> {
  readonly typeName: string
  /**
   * The readers of the fields, in the order in which they run. A reader is also called if its field
   * is absent.
   */
  readonly fields: Readers
  /** Advice for unknown fields that callers often give by mistake, by name. */
  readonly hints?: Readonly<Record<string, string>>
}

/** The readers of a message, by the names of its fields. */
type Readers = Readonly<Record<string, (field: Field) => unknown>>

/**
 * The result of reading a message: each field has the value that its reader returned. A field is
 * optional if its reader may return undefined.
 */
export type Read<Fields extends Readers> = {
  [Name in keyof Fields as undefined extends ReturnType<Fields[Name]> ? never : Name]: ReturnType<
    Fields[Name]
  >
} & {
  [Name in keyof Fields as undefined extends ReturnType<Fields[Name]> ? Name : never]?: Exclude<
    ReturnType<Fields[Name]>,
    undefined
  >
}

/** A reader that returns the field itself, which is read later together with other fields. */
export function itself(field: Field): Field {
  return field
}

/** Reads a message by its shape. Rejects fields that are not in the shape. */
export function readMessage<Fields extends Readers>(
  field: Field,
  shape: Shape<Fields>,
): Read<Fields> {
  const found = new Map<string, unknown>()
  const names = Object.keys(shape.fields)
  for (const { name, path, value } of entriesOf(field)) {
    if (name === '$typeName') checkTypeName(path, value, shape.typeName)
    else if (name === '$unknown') checkUnknown(path, value)
    else {
      const known = names.find(each => each === name || snakeCase(each) === name)
      if (known === undefined) throw unknownField(path, name, names, shape.hints)
      if (found.has(known))
        throw new ValidationError(
          `${pathTo(field.path, known)} is given twice, as ${known} and as ${snakeCase(known)}`,
        )
      found.set(known, value)
    }
  }
  const read = Object.entries(shape.fields).map(([name, reader]) => {
    return [name, reader({ path: pathTo(field.path, name), value: found.get(name) })] as const
  })
  return Object.fromEntries(read.filter(([, value]) => value !== undefined)) as Read<Fields>
}

/** Opens an object that may have unknown properties. Returns a function that reads its fields. */
export function openProperties(field: Field): (name: string) => Field {
  const found = new Map(entriesOf(field).map(entry => [entry.name, entry.value]))
  return name => ({
    path: pathTo(field.path, name),
    value: found.get(name) ?? found.get(snakeCase(name)),
  })
}

/** Reads a map of at most `max` names. Reads each value with `read`. */
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

/** Rejects the name `__proto__`, because assigning it could set the prototype of an object. */
export function checkMapName(path: string, name: string): void {
  if (name === '__proto__') throw new ValidationError(`${path} must not be used as a name`)
}

/** Reads a list of at most `max` elements. Reads each element with `read`. */
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

/** Reads a boolean. An absent field is false. */
export function readBoolean({ path, value }: Field): boolean {
  if (value === undefined) return false
  if (typeof value !== 'boolean')
    throw new ValidationError(`${path} must be true or false, not ${nameKind(value)}`)
  return value
}

/**
 * Names the kind of a value for errors. Names the class of an object, because a Map would otherwise
 * look like an object without properties.
 */
export function nameKind(value: unknown): string {
  if (kindOf(value) !== 'object') return kindOf(value)
  if (isBytes(value)) return 'bytes'
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  const isClass = typeof name === 'string' && name !== 'Object' && /^\w{1,40}$/.test(name)
  return isClass ? name : 'an object'
}

/**
 * Appends the name of a property to a path. Uses a dot if the name is plain and short, else
 * brackets.
 */
function pathTo(parent: string, name: string): string {
  if (/^[\w$-]{1,64}$/.test(name)) return parent === '' ? name : `${parent}.${name}`
  const shown = name.length > 64 ? `${name.slice(0, 64)}…` : name
  return `${parent}[${JSON.stringify(shown).replace(/[^\x20-\x7e…]/g, escapeUnit)}]`
}

interface Entry extends Field {
  readonly name: string
}

/**
 * Lists the own properties of a plain object. Skips absent properties. Reads each property only
 * once.
 */
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

/** Tells whether a value is an object literal of any realm, or an object without a prototype. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function checkTypeName(path: string, value: unknown, typeName: string): void {
  if (value !== typeName) throw new ValidationError(`${path} must be ${typeName}`)
}

/** Rejects unknown fields of a later version, because they would be lost. */
function checkUnknown(path: string, value: unknown): void {
  if (!Array.isArray(value) || value.length > 0)
    throw new ValidationError(`${path} must be empty: it holds fields that are not known here`)
}

function unknownField(
  path: string,
  name: string,
  names: readonly string[],
  hints: Readonly<Record<string, string>> = {},
): ValidationError {
  const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  const hint = Object.hasOwn(hints, camel) ? hints[camel] : adviseName(camel, names)
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
