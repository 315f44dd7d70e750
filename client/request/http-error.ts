import type { DataStreamsError } from '../../core/errors.js'
import { TextDecoder } from '../../platform/globals.js'
import { type Call, describeCall } from '../contract/call.js'
import {
  APIError,
  AuthenticationError,
  EntitlementError,
  WebSocketError,
} from '../contract/errors.js'
import type { HttpAnswer } from '../transport/http.js'

/** The service rejects a timestamp that differs from its clock by more milliseconds. */
const ALLOWED_SKEW = 5_000
/** A message quotes at most so many characters of the service's text. */
const MAX_DETAIL = 200

/** Makes the error for an answer with an error status. */
export function errorFromAnswer(
  call: Call,
  { status, headers, body }: HttpAnswer,
  now: () => number,
): DataStreamsError {
  const foreign = foreignText(status, headers, body)
  const said =
    foreign === undefined ? quoteService(call, body) : quoteForeign(call, headers, foreign)
  const facts = [`${describeCall(call)} answered ${status}`, ...said]
  const serverTime = parseDate(headers.get('date'))
  // The service's clock sets a Retry-After date, so it is compared with the date of the answer.
  const answeredAt = serverTime === undefined ? now : () => serverTime
  const retryAfter = parseRetryAfter(headers.get('retry-after'), answeredAt)
  if (retryAfter !== undefined) facts.push(`Retry-After: ${retryAfter / 1000} s`)
  if ((status === 401 || status === 403) && foreign === undefined) {
    if (serverTime !== undefined) facts.push(...describeSkew(call, serverTime, now()))
    const isForbidden = status === 403
    facts.push(
      isForbidden
        ? 'The key may not have this, or the service has blocked the key or the address of this machine.'
        : 'The service answers alike for a wrong key, a wrong signature, a wrong clock and a feed you may not read.',
    )
    const Denied = isForbidden ? EntitlementError : AuthenticationError
    return new Denied(facts.join('\n  '), { statusCode: status, retryAfter, serverTime })
  }
  // Browsers hide the status of a redirect, and report 0.
  if (status === 0 || (status >= 300 && status < 400))
    facts.push('A redirect is not followed: the signature covers the URL it was made for.')
  const message = facts.join('\n  ')
  const found = { statusCode: status, retryAfter, isForeign: foreign !== undefined }
  return call.kind === 'stream'
    ? new WebSocketError(message, { code: 'WS_REFUSED', ...found })
    : new APIError(message, found)
}

/**
 * The first line of a rejection that is not the service's: something between this client and the
 * service has answered, such as a proxy, a CDN or the login page of a network. Undefined if it may
 * be the service's, which answers with JSON, with a few words, or with nothing.
 */
function foreignText(status: number, headers: Headers, body: Uint8Array): string | undefined {
  if (status !== 401 && status !== 403 && status !== 404) return undefined
  const text = new TextDecoder().decode(body.subarray(0, MAX_PAGE)).trim()
  if (text.startsWith('<')) return titleOf(text)
  if (text !== '' && (/^[[{"]/.test(text) || SERVICE_WORDS.test(text))) return undefined
  // The service asks for no login: its credentials are in headers of its own.
  if (status === 401) return headers.has('www-authenticate') ? text.split('\n', 1)[0] : undefined
  return status === 403 && text !== '' ? text.split('\n', 1)[0] : undefined
}

/** A body that is longer is not read for its words. */
const MAX_QUOTED = 65_536
/** So much of a page is read for its title. */
const MAX_PAGE = 4096
/** Words with which a service of this protocol rejects. */
const SERVICE_WORDS =
  /\b(unauthori[sz]ed|forbidden|authenticat\w*|authori[sz]\w*|credentials?|signature|timestamp|clock|hmac|api ?key|secret|feeds?|user|account|plan|permissions?|entitle\w*)\b/i

/** What a page says: its title, or else the beginning of its text. */
function titleOf(html: string): string {
  const title = /<title[^<>]*>([^<]*)/i.exec(html)?.[1]?.trim()
  return (
    title ||
    html
      .replace(/<[^<>]*>/g, ' ')
      .trim()
      .replace(/\s+/g, ' ')
  )
}

/** Says who has answered in place of the service, and what. */
function quoteForeign(call: Call, headers: Headers, text: string): string[] {
  const server = headers.get('server')
  const who = server === null ? [] : quoteText(call, server, 'Its server is')
  return [
    'Not the service has answered, but something in front of it: a proxy, a CDN, or the login page of a network.',
    ...who,
    ...quoteText(call, text, 'It says'),
  ]
}

/**
 * Reads a Retry-After header: seconds, or a date, which is compared with `now`. Returns
 * milliseconds, or undefined for other values.
 */
export function parseRetryAfter(value: string | null, now: () => number): number | undefined {
  if (value === null) return undefined
  const text = value.trim()
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000
  const date = parseDate(text)
  return date === undefined ? undefined : Math.max(0, date - now())
}

/**
 * Reads the date of a header, in milliseconds of Unix time. A date without GMT is rejected, because
 * it would be read as local time.
 */
function parseDate(value: string | null): number | undefined {
  const date = /^[A-Za-z]{3}.* GMT$/.test(value ?? '') ? Date.parse(value as string) : Number.NaN
  return Number.isNaN(date) ? undefined : date
}

/** Reports a wrong clock, unless the signature had a corrected time. */
function describeSkew(call: Call, serverTime: number, now: number): string[] {
  const skew = now - serverTime
  const stamp = call.headers.get('x-authorization-timestamp')
  if (isAllowed(skew) || (stamp !== null && isAllowed(Number(stamp) - serverTime))) return []
  const seconds = Math.round(Math.abs(skew) / 1000)
  return [
    `This machine's clock is ${seconds} s ${skew > 0 ? 'ahead of' : 'behind'} the service's: more than the ${ALLOWED_SKEW / 1000} s it allows. Set the clock.`,
  ]
}

function isAllowed(skew: number): boolean {
  // The header counts whole seconds, so a skew below one second is invisible.
  return skew < ALLOWED_SKEW + 1000 && skew > -ALLOWED_SKEW
}

/** Quotes the message in the body of an answer. */
function quoteService(call: Call, body: Uint8Array): string[] {
  if (body.length === 0 || body.length > MAX_QUOTED) return []
  return quoteText(call, messageOf(new TextDecoder().decode(body)))
}

/** Quotes the service's text as one short printable line, unless it repeats a secret header. */
export function quoteText(
  call: Call,
  text: string | undefined,
  says = 'The service says',
): string[] {
  if (text === undefined || text === '') return []
  if (repeatsHeader(text, call.headers))
    return ['What the service says repeats what was sent, so it is left out.']
  const line = text.replace(/[^\x20-\x7e]+/g, ' ')
  return [`${says}: ${line.length > MAX_DETAIL ? `${line.slice(0, MAX_DETAIL - 1)}…` : line}`]
}

function messageOf(json: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(json)
    return wordsOf(parsed, 3)
  } catch {
    return undefined
  }
}

/** The first text under a name for messages, at most so many levels deep. */
function wordsOf(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null || depth === 0) return undefined
  const { message, error, errors, detail } = value as Record<string, unknown>
  const parts = Array.isArray(value) ? value.slice(0, 1) : [message, error, detail, errors]
  for (const part of parts) {
    const words = wordsOf(part, depth - 1)
    if (words !== undefined) return words
  }
  return undefined
}

/** 8 common characters are no coincidence, and few enough to recognise a truncated secret. */
const REPEATED = 8
/** Values of fewer characters occur in many texts by chance. */
const MIN_RECOGNISABLE = 4
/** Headers without secrets. */
const harmless = [
  'accept',
  'traceparent',
  'tracestate',
  'user-agent',
  'x-authorization-timestamp',
  'x-cll-origin',
]

/**
 * True if the text repeats a part of a secret header. Case and punctuation don't matter. Such a
 * text must not get into errors, logs or names.
 */
export function repeatsHeader(text: string, headers: Headers): boolean {
  const squeezed = squeeze(text)
  for (const [name, value] of headers) {
    if (harmless.includes(name)) continue
    const secret = squeeze(value)
    for (let at = 0; at + REPEATED <= secret.length; at++) {
      if (squeezed.includes(secret.slice(at, at + REPEATED))) return true
    }
    const isShort = secret.length >= MIN_RECOGNISABLE && secret.length < REPEATED
    if (isShort && squeezed.includes(secret)) return true
  }
  return false
}

function squeeze(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9]/g, '')
}
