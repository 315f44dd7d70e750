import { ValidationError } from 'sluice/core'
import { BOUND_LAYOUT, foreignCause } from 'sluice/internal'
import type { HeaderValuesMessage, HTTPRequestBody } from '../types.js'
import { parseDuration } from './duration.js'
import {
  checkMapName,
  type Field,
  itself,
  nameKind,
  readBoolean,
  readBytes,
  readCertificate,
  readList,
  readMap,
  readMessage,
  readString,
  readText,
} from './fields.js'
import {
  type ConfidentialHTTPRequestMessage,
  type DurationMessage,
  type HTTPRequestMessage,
  type SecretIdentifierMessage,
  TYPE_NAMES,
} from './message.js'

/** The highest number of headers of a request. */
const MAX_NAMES = 256
/** The highest number of values of all headers together. */
const MAX_VALUES = 1024
/** The highest number of secrets of a request. */
const MAX_SECRETS = 10
/** The highest number of characters of a secret's name. The vault has the same limit. */
const MAX_LENGTH = 64
const MAX_PUBLIC_VALUES = 256

const HTTP_REQUEST = {
  typeName: TYPE_NAMES.HTTPRequest,
  fields: {
    url: readURL,
    method: readMethod,
    bodyString: itself,
    bodyBytes: itself,
    body: itself,
    multiHeaders: readRequestHeaders,
    templatePublicValues: readPublicValues,
    customRootCaCertPem: readCertificate,
    timeout: readTimeout,
    encryptOutput: readBoolean,
    outputLayout: itself,
    requestId: itself,
  },
  hints: {
    headers: 'give multiHeaders, with { values: […] } for each name',
    templateValues: 'give templatePublicValues',
    secrets: 'give vaultDonSecrets, beside request',
    vaultDonSecrets: 'it belongs beside request, not in it',
  },
}

const CONFIDENTIAL_HTTP_REQUEST = {
  typeName: TYPE_NAMES.ConfidentialHTTPRequest,
  fields: { request: readHTTPRequest, vaultDonSecrets: readSecretIdentifiers },
  hints: {
    ...Object.fromEntries(
      Object.keys(HTTP_REQUEST.fields).map(name => [
        name,
        `it belongs in request, as request.${name}`,
      ]),
    ),
    body: 'give request.bodyString or request.bodyBytes',
    headers: 'give request.multiHeaders',
    templateValues: 'give request.templatePublicValues',
    secrets: 'give vaultDonSecrets',
  },
}

/**
 * Converts a confidential request to its normal form. The request may be a message, a plain object,
 * JSON or a mixture. Throws ValidationError for any other input. The error names the path and the
 * rule, and quotes no value.
 */
export function normalizeRequest(input: unknown): ConfidentialHTTPRequestMessage {
  try {
    const read = readMessage({ path: '', value: input ?? undefined }, CONFIDENTIAL_HTTP_REQUEST)
    return { $typeName: TYPE_NAMES.ConfidentialHTTPRequest, ...read }
  } catch (error) {
    if (error instanceof ValidationError) throw error
    throw new ValidationError('input could not be read', { cause: foreignCause(error) })
  }
}

function readHTTPRequest(request: Field): HTTPRequestMessage {
  const read = readMessage(request, HTTP_REQUEST)
  const { bodyString, bodyBytes, body, outputLayout, requestId, ...others } = read
  return {
    $typeName: TYPE_NAMES.HTTPRequest,
    ...others,
    body: readBody(bodyString, bodyBytes, body),
    ...readLayout(outputLayout, requestId, others.encryptOutput),
  }
}

function readTimeout({ path, value }: Field): DurationMessage | undefined {
  return value === undefined ? undefined : parseDuration(path, value)
}

function readLayout(
  layout: Field,
  id: Field,
  isEncrypted: boolean,
): Pick<HTTPRequestMessage, 'outputLayout' | 'requestId'> {
  const { value: name = REFERENCE_LAYOUT } = layout
  if (name === REFERENCE_LAYOUT) {
    if (id.value === undefined) return {}
    throw new ValidationError(
      `${id.path} must not be given: only the layout ${BOUND_LAYOUT} of ${layout.path} is bound to it`,
    )
  }
  if (name !== BOUND_LAYOUT)
    throw new ValidationError(`${layout.path} must be '${REFERENCE_LAYOUT}' or '${BOUND_LAYOUT}'`)
  const requestId = checkRequestId(id.path, id.value)
  if (isEncrypted) return { outputLayout: BOUND_LAYOUT, requestId }
  throw new ValidationError(
    `${layout.path} must not be ${BOUND_LAYOUT} unless encryptOutput is true`,
  )
}

function readURL(field: Field): string {
  const url = readText(field)
  if (!/^https?:\/\//i.test(url) || /[\s\p{Cc}]/u.test(url) || !URL.canParse(url))
    throw new ValidationError(
      `${field.path} must be an absolute URL that begins with https:// or http://`,
    )
  const { username, password } = new URL(url)
  if (username !== '' || password !== '')
    throw new ValidationError(
      `${field.path} must not hold a user name or a password: give the header Authorization, 'Basic {{basicAuth .user .password}}'`,
    )
  if (url.includes('{{'))
    throw new ValidationError(
      `${field.path} must not hold placeholders: they are filled in bodyString and header values only`,
    )
  return url
}

function readMethod(field: Field): string {
  const method = readText(field).toUpperCase()
  if (!/^[!#$%&'*+.^_`|~0-9A-Z-]{1,32}$/.test(method))
    throw new ValidationError(`${field.path} must be an HTTP method, such as GET or POST`)
  if (method === 'CONNECT' || method === 'TRACE')
    throw new ValidationError(`${field.path} must not be ${method}, which no enclave sends`)
  return method
}

function readPublicValues(field: Field): { [name: string]: string } {
  return readMap(field, MAX_PUBLIC_VALUES, function readPublicValue(entry, name) {
    checkMapName(entry.path, name)
    return readString(entry)
  })
}

function readBody(bodyString: Field, bodyBytes: Field, message: Field): HTTPRequestBody {
  const given = [
    { ...bodyString, case: 'bodyString' },
    { ...bodyBytes, case: 'bodyBytes' },
    readBodyCase(message),
  ]
  const [body, other] = given.filter(({ value }) => value !== undefined)
  if (body === undefined) return { case: undefined }
  if (other !== undefined)
    throw new ValidationError(
      `${body.path} and ${other.path} must not both be given: the body is one of bodyString and bodyBytes`,
    )
  return body.case === 'bodyString'
    ? { case: 'bodyString', value: readString(body) }
    : { case: 'bodyBytes', value: readBytes(body) }
}

/**
 * Reads the body of a message, `{ case, value }`. If the case is absent, the value must be absent,
 * too.
 */
function readBodyCase({ path, value: body }: Field): Field & { readonly case?: string } {
  if (body === undefined) return { path, value: undefined }
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'case'))
    throw new ValidationError(`${path} is unknown: give bodyString or bodyBytes`)
  const { case: given, value: content } = body as {
    readonly case: unknown
    readonly value: unknown
  }
  const name = given ?? undefined
  const value = content ?? undefined
  if (name === undefined && value === undefined) return { path, value }
  if (name !== 'bodyString' && name !== 'bodyBytes')
    throw new ValidationError(`${path}.case must be bodyString or bodyBytes`)
  if (value === undefined) throw new ValidationError(`${path}.value is required`)
  return { path: `${path}.value`, value, case: name }
}

/**
 * The layout of the reference: nonce, ciphertext and tag. A body in this layout is bound to
 * nothing.
 */
export const REFERENCE_LAYOUT = 'reference'

/** Checks the id that an answer is bound to. */
export function checkRequestId(path: string, value: unknown): string {
  if (typeof value !== 'string' || !/^[!-~]{1,128}$/.test(value))
    throw new ValidationError(
      `${path} must be 1 to 128 visible characters of ASCII, another for each request`,
    )
  return value
}

/**
 * The headers that frame a request or belong to one hop. A request must not set them, because the
 * enclave does.
 */
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
export function readRequestHeaders(field: Field): { [name: string]: HeaderValuesMessage } {
  let count = 0
  return readMap(field, MAX_NAMES, function readHeader(entry, name) {
    checkHeaderName(entry.path, name)
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
  const $typeName = TYPE_NAMES.HeaderValues
  const fields = { values: (field: Field) => readList(field, max, readString) }
  return { $typeName, ...readMessage(entry, { typeName: $typeName, fields }) }
}

function checkHeaderName(path: string, name: string): void {
  checkMapName(path, name)
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name))
    throw new ValidationError(
      `${path} must be a header's name: letters, digits and hyphens, no spaces`,
    )
  if (FRAMING.has(name.toLowerCase()))
    throw new ValidationError(`${path} must not be given: the enclave sets this header itself`)
}

const SECRET_IDENTIFIER = {
  typeName: TYPE_NAMES.SecretIdentifier,
  fields: {
    key: (field: Field) => checkName(field, readText(field)),
    namespace: (field: Field) => readName(field) ?? 'main',
    owner: readName,
  },
  hints: { id: 'give key', name: 'give key' },
}

/**
 * Reads the names of the secrets that a request may use, at most 10. Each must have a different
 * key, because placeholders find a secret by its key.
 */
export function readSecretIdentifiers(field: Field): SecretIdentifierMessage[] {
  const secrets = readList(field, MAX_SECRETS, readSecretIdentifier)
  secrets.forEach(function checkDuplicate(secret, at) {
    const before = secrets.findIndex(each => each.key === secret.key)
    const first = secrets[before]
    if (before === at || first === undefined) return
    const path = `${field.path}[${at}]`
    throw new ValidationError(
      first.namespace === secret.namespace && first.owner === secret.owner
        ? `${path} must not repeat ${field.path}[${before}]: duplicate request for secret identifier`
        : `${path}.key must not be that of ${field.path}[${before}]: placeholders find a secret by its key alone`,
    )
  })
  return secrets
}

function readSecretIdentifier(element: Field): SecretIdentifierMessage {
  return { $typeName: TYPE_NAMES.SecretIdentifier, ...readMessage(element, SECRET_IDENTIFIER) }
}

/** Reads a name that may be absent. An empty name counts as absent. */
function readName(field: Field): string | undefined {
  const name = field.value === undefined ? '' : readString(field)
  return name === '' ? undefined : checkName(field, name)
}

function checkName({ path }: Field, name: string): string {
  if (!/^[a-zA-Z0-9_]+$/.test(name))
    throw new ValidationError(`${path} must only have letters, digits and underscores`)
  if (name.length > MAX_LENGTH)
    throw new ValidationError(`${path} must have at most ${MAX_LENGTH} characters`)
  return name
}
