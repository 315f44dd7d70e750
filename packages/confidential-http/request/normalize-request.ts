import { ValidationError } from 'sluice/core'
import { BOUND_LAYOUT, foreignCause } from 'sluice/internal'
import { checkRequestId, REFERENCE_LAYOUT } from '../output-layout.js'
import type { HTTPRequestBody } from '../types.js'
import { readBytes, readCertificate } from './byte-fields.js'
import { parseDuration } from './duration.js'
import {
  checkMapName,
  type Field,
  openMessage,
  readBoolean,
  readMap,
  readString,
  readText,
} from './fields.js'
import { readHeaders } from './headers.js'
import {
  type ConfidentialHTTPRequestMessage,
  type HTTPRequestMessage,
  TYPE_NAMES,
} from './message.js'
import { readSecretIdentifiers } from './secret-identifiers.js'

const MAX_PUBLIC_VALUES = 256

const HTTP_REQUEST = {
  typeName: TYPE_NAMES.HTTPRequest,
  fields: [
    'url',
    'method',
    'bodyString',
    'bodyBytes',
    'body',
    'multiHeaders',
    'templatePublicValues',
    'customRootCaCertPem',
    'timeout',
    'encryptOutput',
    'outputLayout',
    'requestId',
  ],
  hints: {
    headers: 'give multiHeaders, with { values: […] } for each name',
    templateValues: 'give templatePublicValues',
    secrets: 'give vaultDonSecrets, beside request',
    vaultDonSecrets: 'it belongs beside request, not in it',
  },
} as const

const CONFIDENTIAL_HTTP_REQUEST = {
  typeName: TYPE_NAMES.ConfidentialHTTPRequest,
  fields: ['request', 'vaultDonSecrets'],
  hints: {
    ...Object.fromEntries(
      HTTP_REQUEST.fields.map(name => [name, `it belongs in request, as request.${name}`]),
    ),
    body: 'give request.bodyString or request.bodyBytes',
    headers: 'give request.multiHeaders',
    templateValues: 'give request.templatePublicValues',
    secrets: 'give vaultDonSecrets',
  },
} as const

type HTTPRequestField = (name: (typeof HTTP_REQUEST.fields)[number]) => Field

/**
 * Converts a confidential request of any form (message, plain or JSON, also mixed) to its normal form. For any other input it
 * throws ValidationError, which names the path and the rule and quotes no value.
 */
export function normalizeRequest(input: unknown): ConfidentialHTTPRequestMessage {
  try {
    return readConfidentialHTTPRequest({ path: '', value: input ?? undefined })
  } catch (error) {
    if (error instanceof ValidationError) throw error
    throw new ValidationError('input could not be read', { cause: foreignCause(error) })
  }
}

function readConfidentialHTTPRequest(input: Field): ConfidentialHTTPRequestMessage {
  const field = openMessage(input, CONFIDENTIAL_HTTP_REQUEST)
  return {
    $typeName: TYPE_NAMES.ConfidentialHTTPRequest,
    vaultDonSecrets: readSecretIdentifiers(field('vaultDonSecrets')),
    request: readHTTPRequest(field('request')),
  }
}

function readHTTPRequest(request: Field): HTTPRequestMessage {
  const field = openMessage(request, HTTP_REQUEST)
  const timeout = field('timeout')
  return {
    $typeName: TYPE_NAMES.HTTPRequest,
    url: readURL(field('url')),
    method: readMethod(field('method')),
    body: readBody(field),
    multiHeaders: readHeaders(field('multiHeaders')),
    templatePublicValues: readMap(
      field('templatePublicValues'),
      MAX_PUBLIC_VALUES,
      readPublicValue,
    ),
    customRootCaCertPem: readCertificate(field('customRootCaCertPem')),
    ...(timeout.value !== undefined && { timeout: parseDuration(timeout.path, timeout.value) }),
    encryptOutput: readBoolean(field('encryptOutput')),
    ...readLayout(field),
  }
}

function readLayout(
  field: HTTPRequestField,
): Pick<HTTPRequestMessage, 'outputLayout' | 'requestId'> {
  const [layout, id] = [field('outputLayout'), field('requestId')]
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
  if (field('encryptOutput').value !== true)
    throw new ValidationError(
      `${layout.path} must not be ${BOUND_LAYOUT} unless encryptOutput is true`,
    )
  return { outputLayout: BOUND_LAYOUT, requestId }
}

function readURL(field: Field): string {
  const url = readText(field)
  if (!/^https?:\/\//i.test(url) || /[\s\p{Cc}]/u.test(url) || !URL.canParse(url))
    throw new ValidationError(
      `${field.path} must be an absolute URL that begins with https:// or http://`,
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

function readPublicValue(entry: Field, name: string): string {
  checkMapName(entry.path, name)
  return readString(entry)
}

function readBody(field: HTTPRequestField): HTTPRequestBody {
  const given = [
    { ...field('bodyString'), case: 'bodyString' },
    { ...field('bodyBytes'), case: 'bodyBytes' },
    readBodyCase(field('body')),
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

/** Reads the body of a message, `{ case, value }`, whose value is absent if the case is. */
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
