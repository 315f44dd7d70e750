import { ValidationError } from '../../core/errors.js'
import { kindOf } from '../../core/kind.js'
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

/** Makes a response when it is asked for, or a call whose `result()` is the response. */
export type ResponseSource = () => { readonly result: AnyResponse | (() => AnyResponse) }

/** What will be known of a response once it is there. */
export interface Later<Value> {
  /** Blocks until the response is there. */
  result(): Value
}

/** True for a status from 200 to 299. */
export function ok(response: AnyResponse): boolean
/** Whether the response will have a status from 200 to 299. */
export function ok(response: ResponseSource): Later<boolean>
export function ok(response: AnyResponse | ResponseSource): boolean | Later<boolean> {
  return read(response, field => {
    const status = readStatus(field)
    return status >= 200 && status < 300
  })
}

/** The body as text, without a byte order mark and without white space at either end. */
export function text(response: AnyResponse): string
/** What the body of the response will be as text. */
export function text(response: ResponseSource): Later<string>
export function text(response: AnyResponse | ResponseSource): string | Later<string> {
  return read(response, field => decode(field).trim())
}

/** The body parsed as JSON. Throws SyntaxError where it is none, so also where it is empty. */
export function json<Value = unknown>(response: AnyResponse): Value
/** What the body of the response will be, parsed as JSON. */
export function json<Value = unknown>(response: ResponseSource): Later<Value>
export function json<Value>(response: AnyResponse | ResponseSource): Value | Later<Value> {
  return read(response, field => JSON.parse(decode(field)) as Value)
}

/** The values of a header, whose name is equal in whatever case; several are joined by a comma, none are undefined. */
export function getHeader(response: AnyResponse, name: string): string | undefined
/** What the values of a header will be. */
export function getHeader(response: ResponseSource, name: string): Later<string | undefined>
export function getHeader(
  response: AnyResponse | ResponseSource,
  name: string,
): string | undefined | Later<string | undefined> {
  return read(response, field => {
    const values = valuesOf(field, name)
    return values.length === 0 ? undefined : values.join(', ')
  })
}

/** The values of the first header whose name is equal in whatever case, in a list of its own. */
export function getHeaders(response: AnyResponse, name: string): string[]
/** What the list of a header's values will be. */
export function getHeaders(response: ResponseSource, name: string): Later<string[]>
export function getHeaders(
  response: AnyResponse | ResponseSource,
  name: string,
): string[] | Later<string[]> {
  return read(response, field => valuesOf(field, name))
}

function read<Value>(
  response: AnyResponse | ResponseSource,
  look: (field: ResponseField) => Value,
): Value | Later<Value> {
  if (typeof response !== 'function') return look(openResponse(response))
  return {
    result() {
      const { result } = response() ?? {}
      return look(openResponse(typeof result === 'function' ? result() : result))
    },
  }
}

function valuesOf(field: ResponseField, name: unknown): string[] {
  if (typeof name !== 'string')
    throw new ValidationError(`name must be a string, not ${kindOf(name)}`)
  const wanted = name.toLowerCase()
  const found = Object.entries(readHeaders(field)).find(([key]) => key.toLowerCase() === wanted)
  return found === undefined ? [] : [...found[1].values]
}

/** Bytes that are no UTF-8 become U+FFFD. */
function decode(field: ResponseField): string {
  return new TextDecoder().decode(readBody(field))
}
