import { createLifetime, isStreamsError, ValidationError } from 'sluice/core'
import {
  type BoxKeys,
  boxKeys,
  createHttp,
  formatKey,
  isPublicKey,
  parseKey,
  quoted,
} from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import {
  boxJSON,
  openJSON,
  openRequestJSON,
  parseObject,
  sealRequestJSON,
  toJSON,
} from '../../sealed-message.js'
import type { Fields } from '../files.js'
import { MAX_HOLDERS, MAX_MANIFEST_BYTES } from '../manifest.js'

/*
 * The protocol between a holder of a vault and its callers: sealed messages (sealed-message.ts)
 * over HTTP.
 *
 *   POST /v1/holder    request: 'N' ‖ JSON { version, replyTo, kind, … };
 *                      a manifest adds a line feed ‖ its text
 *     answer           box from the holder to replyTo:
 *                      'M' ‖ JSON { answer } or { failure: { code, message } }
 *
 * `replyTo` is the public key of a pair made for this one request, so nobody can open an old answer
 * with another key. An attacker gains nothing by sending a request again. A released share is
 * sealed to a key made for the first request, and every other request only moves a holder forward.
 *
 * Anybody who can reach a holder can make it open boxes. Each box takes about a millisecond, and
 * the longest request about 0.3 s. The holder parses the opened JSON only up to `MAX_JSON_BYTES`,
 * unless the sender is a known caller. It parses a manifest only after it has checked the
 * signature. Give network access to a holder only to the machines that need it.
 *
 * Messages that a holder's key opens reveal nothing about its share. Shares for the enclave are
 * sealed to a key made for the request. Sub-shares are sealed to a key that the holder makes for
 * one resharing and never stores. So an attacker who records the traffic and later steals the
 * holders' keys gets no share of any generation.
 */

/** The path of requests to a holder. */
export const HOLDER_PATH = '/v1/holder'
/**
 * The longest JSON of a request from a sender that is not a caller. 31 dealings for 31 holders fit.
 */
const MAX_JSON_BYTES = 131_072
/** The longest request. The manifest is by far its longest part. */
export const MAX_REQUEST_BYTES: number = MAX_MANIFEST_BYTES + MAX_JSON_BYTES

const VERSION = 1
const MAX_ANSWER_BYTES = 1_048_576
/** The most characters of a holder's message that are quoted. */
const MAX_MESSAGE = 300
/** Milliseconds within which a holder must answer. */
const ANSWER_TIMEOUT = 10_000

/** A request to a holder: its kind, and the fields of that kind. Bytes are base64. */
export type HolderRequest = { readonly kind: string } & Fields

/** A request that a holder has opened. */
export interface OpenedRequest {
  /** The caller's public key: 64 hexadecimal digits. */
  readonly asker: string
  readonly replyTo: Uint8Array
  readonly request: HolderRequest
}

/**
 * Opens a request. Returns undefined if the request is malformed or sealed to another holder, or if
 * it is too long and its sender is not a caller.
 */
export function openHolderRequest(
  sealed: Uint8Array,
  holder: BoxKeys,
  callers: readonly string[] = [],
): OpenedRequest | undefined {
  const opened = openRequestJSON('N', sealed, holder)
  if (opened === undefined) return undefined
  const [json, text] = splitLine(opened.json)
  const asker = formatKey(opened.sender)
  if (json.length > MAX_JSON_BYTES && !callers.includes(asker)) return undefined
  const request = parseObject(json)
  if (request?.version !== VERSION) return undefined
  const { replyTo, kind } = request
  if (typeof replyTo !== 'string' || typeof kind !== 'string') return undefined
  const key = /^[0-9a-f]{64}$/.test(replyTo) ? parseKey('replyTo', replyTo) : undefined
  if (key === undefined || !isPublicKey(key)) return undefined
  const manifest = text === undefined ? {} : { text }
  return { asker, replyTo: key, request: { ...request, kind, ...manifest } }
}

/** Returns the first line, and the text after it. */
function splitLine(text: string): readonly [string, string?] {
  const end = text.indexOf('\n')
  return end < 0 ? [text] : [text.slice(0, end), text.slice(end + 1)]
}

/** Seals a holder's answer, or its failure. */
export function sealHolderAnswer(answer: object, replyTo: Uint8Array, holder: BoxKeys): Uint8Array {
  return boxJSON('M', toJSON(answer), replyTo, holder)
}

const http = createHttp()

/**
 * Asks a holder. Rejects with VaultError, also if the answer is not from the holder with this key.
 */
export async function askHolder(
  { url, key }: { readonly url: string; readonly key: string },
  asker: BoxKeys,
  { text, ...request }: HolderRequest,
  signal?: AbortSignal,
): Promise<Fields> {
  const holder = parseKey('key', key)
  const replyTo = boxKeys()
  const life = createLifetime(signal)
  const timer = setTimeout(life.end, ANSWER_TIMEOUT)
  try {
    const json = toJSON({ version: VERSION, replyTo: formatKey(replyTo.publicKey), ...request })
    const whole = typeof text === 'string' ? `${json}\n${text}` : json
    const sealed = sealRequestJSON('N', whole, holder, asker)
    const opened = openJSON('M', await post(url, sealed, life.signal), holder, replyTo)
    const answer = opened === undefined ? undefined : parseObject(opened)
    if (answer === undefined) throw unanswered('the answer is not of the holder with this key')
    if (answer.failure !== undefined) throw failureOf(answer.failure)
    return fieldsOf(answer.answer)
  } finally {
    clearTimeout(timer)
    life.end()
    replyTo.secretKey.fill(0)
  }
}

/**
 * Posts a sealed request. If the connection fails, posts it once more, because the server may have
 * closed an idle connection. Sending the same bytes twice is safe.
 */
async function post(
  url: string,
  body: Uint8Array,
  signal: AbortSignal,
  isFirst = true,
): Promise<Uint8Array> {
  const headers = new Headers({ 'content-type': 'application/octet-stream' })
  const request = { method: 'POST', url: `${url}${HOLDER_PATH}`, headers, body, signal }
  try {
    const { status, body: answer } = await http(request, MAX_ANSWER_BYTES)
    if (status === 200) return answer
    throw unanswered(`it answered ${status}`)
  } catch (thrown) {
    if (thrown instanceof VaultError) throw thrown
    if (isStreamsError(thrown)) throw unanswered('its answer is too long')
    if (signal.aborted) throw unanswered('it did not answer in time')
    if (isFirst) return post(url, body, signal, false)
    const { cause } = thrown as { readonly cause?: { readonly code?: unknown } }
    const code = typeof cause?.code === 'string' ? cause.code : 'the connection failed'
    throw unanswered(`it could not be reached: ${code}`)
  }
}

/**
 * The error if no valid answer came from the holder. It may answer later, so the error is
 * retryable.
 */
function unanswered(why: string): VaultError {
  return new VaultError(why, { isRetryable: true })
}

/**
 * Makes the error for a holder's failure. A holder may lie, so its message is quoted: nobody must
 * take it for words of this library.
 */
function failureOf(failure: unknown): VaultError {
  const { code, message } = fieldsOf(failure)
  const isText = typeof message === 'string' && message !== ''
  return new VaultError(
    isText ? `it says ${quoted(message, MAX_MESSAGE)}` : 'it failed',
    code === 'ROLLBACK' || code === 'SECRET_EXPIRED' ? { code } : undefined,
  )
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

/** The bytes of a field in base64. */
export function bytesOf(fields: Fields, field: string): Uint8Array {
  return new Uint8Array(Buffer.from(textOf(fields, field), 'base64'))
}

/** The text of a field. */
export function textOf(fields: Fields, field: string): string {
  const value = fields[field]
  if (typeof value !== 'string') throw new ValidationError(`${field} must be a string`)
  return value
}

/** The entries of a field that is a list of texts, at most 31. */
export function textsOf(fields: Fields, field: string): string[] {
  const value = fields[field]
  if (
    !Array.isArray(value) ||
    value.length > MAX_HOLDERS ||
    value.some(each => typeof each !== 'string')
  )
    throw new ValidationError(`${field} must be a list of at most ${MAX_HOLDERS} strings`)
  return value as string[]
}
