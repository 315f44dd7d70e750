import { ValidationError } from 'sluice/core'
import { encodeBase64, foreignCause, isBytes } from 'sluice/internal'
import type {
  Duration,
  DurationJson,
  HeaderValuesJson,
  HTTPRequest,
  HTTPRequestJson,
} from '../types.js'
import { formatDuration, parseDuration, SECOND } from './duration.js'
import {
  type Field,
  itself,
  nameKind,
  readBytes,
  readCertificate,
  readMap,
  readMessage,
  readString,
} from './fields.js'

/** Options of `httpRequest`. */
export interface HTTPRequestOptions
  extends Pick<
    HTTPRequest,
    | 'url'
    | 'bodyString'
    | 'bodyBytes'
    | 'customRootCaCertPem'
    | 'encryptOutput'
    | 'outputLayout'
    | 'requestId'
  > {
  /** The HTTP method. @default 'GET' */
  readonly method?: string | undefined
  /**
   * The body. A string is a template. A Uint8Array is sent unchanged. Any other value becomes JSON,
   * which is a template, too.
   */
  readonly body?: unknown
  /**
   * The headers, each with its value. No header is added, not even a Content-Type. A header here
   * replaces the header of the same name in `multiHeaders`.
   */
  readonly headers?: HeaderOptions | undefined
  /** The headers with several values each. */
  readonly multiHeaders?: HeaderOptions | undefined
  /** The public values that fill placeholders in body and headers. */
  readonly templateValues?: { readonly [name: string]: string | undefined } | undefined
  /** How long the request may take, in milliseconds or as a duration such as `'5s'`. */
  readonly timeout?: number | Duration | DurationJson | undefined
}

/** Headers by name. Each is a value, a list of values, or `{ values }`. */
export interface HeaderOptions {
  readonly [name: string]: string | readonly string[] | HeaderValuesJson | undefined
}

/**
 * Returns the value of a field unchanged, because the field is checked when the request is sent.
 */
function passOn<Value>({ value }: Field): Value | undefined {
  return value as Value | undefined
}

const OPTIONS = {
  typeName: 'HTTPRequestOptions',
  fields: {
    url: passOn<string>,
    method: passOn<string>,
    body: itself,
    bodyString: itself,
    bodyBytes: itself,
    multiHeaders: toHeaders,
    headers: toHeaders,
    templateValues: passOn<NonNullable<HTTPRequestJson['templatePublicValues']>>,
    customRootCaCertPem: (field: Field) =>
      field.value === undefined ? undefined : encodeBase64(readCertificate(field)),
    timeout: (field: Field) => (field.value === undefined ? undefined : toDuration(field)),
    encryptOutput: passOn<boolean>,
    outputLayout: passOn<NonNullable<HTTPRequestJson['outputLayout']>>,
    requestId: passOn<string>,
  },
  hints: {
    templatePublicValues: 'give templateValues',
    vaultDonSecrets: 'it belongs beside the request, not in it',
  },
}

/**
 * Makes an HTTPRequestJson from options in convenient forms. Fields that need no conversion are
 * checked only when the request is sent.
 */
export function httpRequest(options: HTTPRequestOptions): HTTPRequestJson {
  const read = readMessage({ path: 'options', value: options ?? undefined }, OPTIONS)
  const { url, method = 'GET', body, bodyString, bodyBytes, headers, ...others } = read
  const { templateValues: templatePublicValues, multiHeaders, ...fields } = others
  const allHeaders = { ...multiHeaders, ...headers }
  return {
    url,
    method,
    ...toBody(body, bodyString, bodyBytes),
    ...(Object.keys(allHeaders).length > 0 && { multiHeaders: allHeaders }),
    ...(templatePublicValues !== undefined && { templatePublicValues }),
    ...fields,
  }
}

function toHeaders(field: Field): { [name: string]: HeaderValuesJson } {
  return readMap(field, Number.POSITIVE_INFINITY, toHeaderValues)
}

function toBody(
  body: Field,
  bodyString: Field,
  bodyBytes: Field,
): Pick<HTTPRequestJson, 'bodyString' | 'bodyBytes'> {
  if ([body, bodyString, bodyBytes].filter(({ value }) => value !== undefined).length > 1)
    throw new ValidationError(
      'httpRequest: specify the request body using only one of: body, bodyString or bodyBytes',
    )
  if (bodyString.value !== undefined) return { bodyString: readString(bodyString) }
  if (bodyBytes.value !== undefined) return { bodyBytes: encodeBase64(readBytes(bodyBytes)) }
  if (body.value === undefined) return {}
  if (isBytes(body.value)) return { bodyBytes: encodeBase64(body.value) }
  return { bodyString: typeof body.value === 'string' ? body.value : toJSON(body) }
}

/**
 * Writes a value as JSON. A bigint becomes a string, because many parsers read JSON numbers as
 * doubles.
 */
function toJSON({ path, value }: Field): string {
  // Rejects instances such as a Map, a FormData or a promise, which would silently become {}.
  const tag = Object.prototype.toString.call(value)
  const isClass = typeof value === 'object' && tag !== '[object Object]' && !Array.isArray(value)
  if (isClass && typeof (value as { toJSON?: unknown }).toJSON !== 'function')
    throw new ValidationError(
      `${path} must be a string, a Uint8Array or a value that JSON can hold, not ${nameKind(value)}`,
    )
  let text: string | undefined
  try {
    text = JSON.stringify(value, (_, each: unknown) =>
      typeof each === 'bigint' ? String(each) : each,
    )
  } catch (error) {
    throw new ValidationError(`${path} must be a value that JSON can hold`, {
      cause: foreignCause(error),
    })
  }
  if (text === undefined)
    throw new ValidationError(`${path} must be a value that JSON can hold, not ${nameKind(value)}`)
  return text
}

function toHeaderValues({ value }: Field): HeaderValuesJson {
  if (typeof value === 'string') return { values: [value] }
  return Array.isArray(value) ? { values: [...value] } : (value as HeaderValuesJson)
}

/**
 * Converts a timeout to a duration. A number is in milliseconds, as in every timeout of this
 * library.
 */
function toDuration({ path, value }: Field): DurationJson {
  if (typeof value !== 'number') return formatDuration(parseDuration(path, value))
  if (!Number.isFinite(value))
    throw new ValidationError(`${path} must be a number of milliseconds, or a duration such as 5s`)
  const nanos = BigInt(Math.round(value * 1_000_000))
  if (nanos <= 0n) throw new ValidationError(`${path} must be more than 0`)
  const duration = { seconds: nanos / SECOND, nanos: Number(nanos % SECOND) }
  return formatDuration(parseDuration(path, duration))
}
