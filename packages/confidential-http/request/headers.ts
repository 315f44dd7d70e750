import { ValidationError } from 'sluice/core'
import {
  checkMapName,
  type Field,
  nameKind,
  openMessage,
  readList,
  readMap,
  readString,
} from './fields.js'
import { type HeaderValuesMessage, TYPE_NAMES } from './message.js'

const MAX_NAMES = 256
const MAX_VALUES = 1024

const HEADER_VALUES = { typeName: TYPE_NAMES.HeaderValues, fields: ['values'] } as const

/** Headers that frame a request or belong to one hop. The enclave sets them. */
const FRAMING: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Reads the headers of a request. */
export function readHeaders(field: Field): { [name: string]: HeaderValuesMessage } {
  let count = 0
  return readMap(field, MAX_NAMES, function readHeader(entry, name) {
    checkName(entry.path, name)
    const header = readHeaderValues(entry, MAX_VALUES)
    count += header.values.length
    if (count > MAX_VALUES)
      throw new ValidationError(`${field.path} must have at most ${MAX_VALUES} values in all`)
    return header
  })
}

/** Reads the values of one header, at most `max`. */
export function readHeaderValues(entry: Field, max: number): HeaderValuesMessage {
  const { path, value } = entry
  if (typeof value === 'string' || Array.isArray(value))
    throw new ValidationError(
      `${path} must be { values: […] }, not ${nameKind(value)}: give { values: ${typeof value === 'string' ? '[value]' : 'array'} }`,
    )
  const field = openMessage(entry, HEADER_VALUES)
  return {
    $typeName: TYPE_NAMES.HeaderValues,
    values: readList(field('values'), max, readString),
  }
}

function checkName(path: string, name: string): void {
  checkMapName(path, name)
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name))
    throw new ValidationError(
      `${path} must be a header's name: letters, digits and hyphens, no spaces`,
    )
  if (FRAMING.has(name.toLowerCase()))
    throw new ValidationError(`${path} must not be given: the enclave sets this header itself`)
}
