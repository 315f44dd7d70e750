import { ValidationError } from 'sluice/core'
import { isBytes, isThenable } from 'sluice/internal'
import { readBytes } from '../request/byte-fields.js'
import { type Field, nameKind, openProperties, readMap } from '../request/fields.js'
import { readHeaderValues } from '../request/headers.js'
import { type HeaderValuesMessage, TYPE_NAMES } from '../request/message.js'
import type { HTTPResponse } from '../types.js'

const MAX_STATUS = 4_294_967_295

/** Reads one field of a response. */
export type ResponseField = (name: 'statusCode' | 'body' | 'multiHeaders') => Field

/**
 * Converts a response of either form to its normal form; one that has it already is returned as it is. Throws ValidationError
 * for any other value.
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

/** Opens a response of either form. Ignores unknown fields, which a later version may have added. */
export function openResponse(value: unknown): ResponseField {
  if (isThenable(value)) throw new ValidationError('response is a promise: await it first')
  if (typeof (value as { result?: unknown } | undefined)?.result === 'function')
    throw new ValidationError('response is not there yet: call its result() first')
  return openProperties({ path: 'response', value: value ?? undefined })
}

/** Reads the status; an absent one is 0. */
export function readStatus(field: ResponseField): number {
  const { path, value = 0 } = field('statusCode')
  if (typeof value !== 'number')
    throw new ValidationError(`${path} must be a number, not ${nameKind(value)}`)
  if (!Number.isInteger(value) || value < 0 || value > MAX_STATUS)
    throw new ValidationError(`${path} must be a whole number from 0 to ${MAX_STATUS}`)
  return value
}

/** Reads the body: decodes that of JSON, and does not copy that of a message. */
export function readBody(field: ResponseField): Uint8Array {
  const body = field('body')
  if (body.value === undefined) return new Uint8Array()
  return isBytes(body.value) ? body.value : readBytes(body)
}

/** Reads and checks the headers. Their number needs no limit, because the enclave has one. */
export function readHeaders(field: ResponseField): { [name: string]: HeaderValuesMessage } {
  const max = Number.POSITIVE_INFINITY
  return readMap(field('multiHeaders'), max, entry => readHeaderValues(entry, max))
}
