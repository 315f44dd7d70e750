import { kindOf, ValidationError } from 'sluice/core'
import type { Result } from '../capability.js'
import type { HTTPResponse, HTTPResponseJson } from '../types.js'
import {
  openResponse,
  type ResponseField,
  readBody,
  readHeaders,
  readStatus,
} from './normalize-response.js'

/** A response of either form. */
export type AnyResponse = HTTPResponse | HTTPResponseJson

/** Makes a response when it is called, or a call whose `result()` is the response. */
export type ResponseSource = () => { readonly result: AnyResponse | (() => AnyResponse) }

/** Reads a response now, or one that arrives later. */
export interface ResponseReader<Value, Arguments extends readonly unknown[] = readonly []> {
  (response: AnyResponse, ...args: Arguments): Value
  (response: ResponseSource, ...args: Arguments): Result<Value>
}

/** True for a status from 200 to 299. */
export const ok: ResponseReader<boolean> = reader(field => {
  const status = readStatus(field)
  return status >= 200 && status < 300
})

/** The body as text, without a byte order mark and without white space at either end. */
export const text: ResponseReader<string> = reader(field => decode(field).trim())

const readJson: ResponseReader<unknown> = reader(field => JSON.parse(decode(field)))

/** The body parsed as JSON. Throws SyntaxError for any other body, also for an empty one. */
export function json<Value = unknown>(response: AnyResponse): Value
/** The body of a later response, parsed as JSON. */
export function json<Value = unknown>(response: ResponseSource): Result<Value>
export function json(response: AnyResponse | ResponseSource): unknown {
  return readJson(response as AnyResponse)
}

/** The values of a header, joined by commas; undefined if there are none. The case of the name does not matter. */
export const getHeader: ResponseReader<string | undefined, readonly [name: string]> = reader(
  (field, name) => {
    const values = valuesOf(field, name)
    return values.length === 0 ? undefined : values.join(', ')
  },
)

/** A new list of the values of the first header with this name. The case of the name does not matter. */
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
  const found = Object.entries(readHeaders(field)).find(([key]) => key.toLowerCase() === wanted)
  return found === undefined ? [] : [...found[1].values]
}

/** Invalid UTF-8 becomes U+FFFD. */
function decode(field: ResponseField): string {
  return new TextDecoder().decode(readBody(field))
}
