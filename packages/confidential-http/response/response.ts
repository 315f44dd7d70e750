import { kindOf, ValidationError } from 'sluice/core'
import { isBytes, isThenable } from 'sluice/internal'
import type { Result } from '../capability.js'
import { type Field, nameKind, openProperties, readBytes, readMap } from '../request/fields.js'
import { TYPE_NAMES } from '../request/message.js'
import { readHeaderValues } from '../request/normalize-request.js'
import type {
  HeaderValuesMessage,
  HTTPResponse,
  HTTPResponseJson,
  HTTPResponseLike,
} from '../types.js'

const MAX_STATUS = 4_294_967_295

/** Reads one field of a response. */
export type ResponseField = (name: 'statusCode' | 'body' | 'multiHeaders') => Field

/**
 * Converts a response, as message or JSON, to its normal form. Returns a response that is already
 * in its normal form unchanged. Throws ValidationError for any other value.
 */
export function normalizeResponse(value: unknown): HTTPResponse {
  const field = openResponse(value)
  const response: HTTPResponse = {
    $typeName: TYPE_NAMES.HTTPResponse,
    statusCode: readStatus(field),
    body: readBody(field),
    multiHeaders: readResponseHeaders(field),
  }
  const given = value as Partial<HTTPResponse>
  const isNormal =
    given.$typeName === response.$typeName &&
    given.statusCode === response.statusCode &&
    isBytes(given.body) &&
    field('multiHeaders').value !== undefined &&
    given.multiHeaders === field('multiHeaders').value
  return isNormal ? (value as HTTPResponse) : response
}

/**
 * Opens a response, as message or JSON. Ignores unknown fields, because a later version may have
 * added them.
 */
export function openResponse(value: unknown): ResponseField {
  if (isThenable(value)) throw new ValidationError('response is a promise: await it first')
  if (typeof (value as { result?: unknown } | undefined)?.result === 'function')
    throw new ValidationError('response is not there yet: call its result() first')
  return openProperties({ path: 'response', value: value ?? undefined })
}

/** Reads the status. An absent status is 0. */
export function readStatus(field: ResponseField): number {
  const { path, value = 0 } = field('statusCode')
  if (typeof value !== 'number')
    throw new ValidationError(`${path} must be a number, not ${nameKind(value)}`)
  if (!Number.isInteger(value) || value < 0 || value > MAX_STATUS)
    throw new ValidationError(`${path} must be a whole number from 0 to ${MAX_STATUS}`)
  return value
}

/** Reads the body. Decodes the base64 of a JSON response. Does not copy the bytes of a message. */
export function readBody(field: ResponseField): Uint8Array {
  const body = field('body')
  if (body.value === undefined) return new Uint8Array()
  return isBytes(body.value) ? body.value : readBytes(body)
}

/**
 * Reads and checks the headers. They need no limit here, because the enclave limits their number.
 */
export function readResponseHeaders(field: ResponseField): { [name: string]: HeaderValuesMessage } {
  const max = Number.POSITIVE_INFINITY
  return readMap(field('multiHeaders'), max, entry => readHeaderValues(entry, max))
}

/** A response as message or JSON. */
export type AnyResponse = HTTPResponseLike | HTTPResponseJson

/**
 * A function that returns an object. The object's `result` is the response, or a method that
 * returns the response.
 */
export type ResponseSource = () => { readonly result: AnyResponse | (() => AnyResponse) }

/**
 * Reads from a response. For a source of a response, returns an object whose `result()` reads it
 * later.
 */
export interface ResponseReader<Value, Arguments extends readonly unknown[] = readonly []> {
  (response: AnyResponse, ...args: Arguments): Value
  (response: ResponseSource, ...args: Arguments): Result<Value>
}

/** Tells whether the status is from 200 to 299. */
export const ok: ResponseReader<boolean> = reader(field => {
  const status = readStatus(field)
  return status >= 200 && status < 300
})

/** Reads the body as text. Removes a byte order mark, and white space at both ends. */
export const text: ResponseReader<string> = reader(field => decode(field).trim())

const readJson: ResponseReader<unknown> = reader(field => JSON.parse(decode(field)))

/** Parses the body as JSON. Throws SyntaxError if the body is not JSON or is empty. */
export function json<Value = unknown>(response: AnyResponse): Value
/** Returns an object whose `result()` parses the body of a later response as JSON. */
export function json<Value = unknown>(response: ResponseSource): Result<Value>
export function json(response: AnyResponse | ResponseSource): unknown {
  return readJson(response as AnyResponse)
}

/**
 * Returns the values of a header, joined by commas. Returns undefined if there are none. The case
 * of the name does not matter.
 */
export const getHeader: ResponseReader<string | undefined, readonly [name: string]> = reader(
  (field, name) => {
    const values = valuesOf(field, name)
    return values.length === 0 ? undefined : values.join(', ')
  },
)

/**
 * Returns the values of the first header with this name in a new list. The case of the name does
 * not matter.
 */
export const getHeaders: ResponseReader<string[], readonly [name: string]> = reader(valuesOf)

function reader<Value, Arguments extends readonly unknown[]>(
  read: (field: ResponseField, ...args: Arguments) => Value,
): ResponseReader<Value, Arguments> {
  function readNowOrLater(response: AnyResponse | ResponseSource, ...args: Arguments): unknown {
    if (typeof response !== 'function') return read(openResponse(response), ...args)
    return {
      result() {
        const { result } = response() ?? {}
        return read(openResponse(typeof result === 'function' ? result() : result), ...args)
      },
    }
  }
  return readNowOrLater as ResponseReader<Value, Arguments>
}

function valuesOf(field: ResponseField, name: unknown): string[] {
  if (typeof name !== 'string')
    throw new ValidationError(`name must be a string, not ${kindOf(name)}`)
  const wanted = name.toLowerCase()
  const found = Object.entries(readResponseHeaders(field)).find(
    ([key]) => key.toLowerCase() === wanted,
  )
  return found === undefined ? [] : [...found[1].values]
}

/** Decodes the body as UTF-8. Invalid bytes become U+FFFD. */
function decode(field: ResponseField): string {
  return new TextDecoder().decode(readBody(field))
}
