import { ValidationError } from '../../core/errors.js'
import { isBytes } from '../../core/options.js'
import { readBytes } from '../request/byte-fields.js'
import { type Field, nameKind, openProperties, readMap } from '../request/fields.js'
import { readHeaderValues } from '../request/headers.js'
import { type HeaderValuesMessage, TYPE_NAMES } from '../request/message.js'
import type { HTTPResponse } from '../types.js'

const MAX_STATUS = 4_294_967_295

/** One field of a response, by its name. */
export type ResponseField = (name: 'statusCode' | 'body' | 'multiHeaders') => Field

/**
 * A response of either form in its normal one. What already has that form is returned as it is. Throws ValidationError
 * where it is no response.
 */
export function normalizeResponse(value: unknown): HTTPResponse {
  const field = openResponse(value)
  const response: HTTPResponse = {
    $typeName: TYPE_NAMES.HTTPResponse,
    statusCode: readStatus(field),
    body: readBody(field),
    multiHeaders: readHeaders(field),
  }
  const given = value as Partial<HTTPResponse>
  const isNormal =
    given.statusCode === response.statusCode &&
    isBytes(given.body) &&
    field('multiHeaders').value !== undefined &&
    given.multiHeaders === field('multiHeaders').value
  return isNormal ? (value as HTTPResponse) : response
}

/** Opens a response of either form. What it has besides its fields is left alone: it may be of a later version. */
export function openResponse(value: unknown): ResponseField {
  if (typeof (value as { then?: unknown } | undefined)?.then === 'function')
    throw new ValidationError('response is a promise: await it first')
  if (typeof (value as { result?: unknown } | undefined)?.result === 'function')
    throw new ValidationError('response is not there yet: call its result() first')
  return openProperties({ path: 'response', value: value ?? undefined })
}

/** The status; 0 where there is none. */
export function readStatus(field: ResponseField): number {
  const { path, value = 0 } = field('statusCode')
  if (typeof value !== 'number')
    throw new ValidationError(`${path} must be a number, not ${nameKind(value)}`)
  if (!Number.isInteger(value) || value < 0 || value > MAX_STATUS)
    throw new ValidationError(`${path} must be a whole number from 0 to ${MAX_STATUS}`)
  return value
}

/** The body's bytes: those of a message themselves, those of JSON decoded. */
export function readBody(field: ResponseField): Uint8Array {
  const body = field('body')
  if (body.value === undefined) return new Uint8Array()
  return isBytes(body.value) ? body.value : readBytes(body)
}

/** The headers, checked, however many: an answer's are the upstream's, and the enclave has bounded them. */
export function readHeaders(field: ResponseField): { [name: string]: HeaderValuesMessage } {
  const max = Number.POSITIVE_INFINITY
  return readMap(field('multiHeaders'), max, entry => readHeaderValues(entry, max))
}
