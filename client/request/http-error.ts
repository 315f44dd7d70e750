import type { DataStreamsError } from '../../core/errors.js'
import { TextDecoder } from '../../platform/globals.js'
import { type Call, describeCall } from '../contract/call.js'
import { APIError, AuthenticationError, WebSocketError } from '../contract/errors.js'
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
  const facts = [`${describeCall(call)} answered ${status}`, ...quoteService(call, body)]
  const serverTime = parseDate(headers.get('date'))
  // The service's clock sets a Retry-After date, so it is compared with the date of the answer.
  const answeredAt = serverTime === undefined ? now : () => serverTime
  const retryAfter = parseRetryAfter(headers.get('retry-after'), answeredAt)
  if (retryAfter !== undefined) facts.push(`Retry-After: ${retryAfter / 1000} s`)
  if (status === 401 || status === 403) {
    if (serverTime !== undefined) facts.push(...describeSkew(call, serverTime, now()))
    facts.push(
      'The service answers alike for a wrong key, a wrong signature, a wrong clock and a feed you may not read.',
    )
    return new AuthenticationError(facts.join('\n  '), {
      statusCode: status,
      retryAfter,
      serverTime,
    })
  }
  // Browsers hide the status of a redirect, and report 0.
  if (status === 0 || (status >= 300 && status < 400))
    facts.push('A redirect is not followed: the signature covers the URL it was made for.')
  const message = facts.join('\n  ')
  return call.kind === 'stream'
    ? new WebSocketError(message, { code: 'WS_REFUSED', statusCode: status, retryAfter })
    : new APIError(message, { statusCode: status, retryAfter })
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
  if (body.length === 0 || body.length > 65_536) return []
  return quoteText(call, messageOf(new TextDecoder().decode(body)))
}

/** Quotes the service's text as one short printable line, unless it repeats a secret header. */
export function quoteText(call: Call, text: string | undefined): string[] {
  if (text === undefined || text === '') return []
  if (repeatsHeader(text, call.headers))
    return ['What the service says repeats what was sent, so it is left out.']
  const line = text.replace(/[^\x20-\x7e]+/g, ' ')
  return [
    `The service says: ${line.length > MAX_DETAIL ? `${line.slice(0, MAX_DETAIL - 1)}…` : line}`,
  ]
}

function messageOf(json: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(json)
    if (typeof parsed !== 'object' || parsed === null) return undefined
    const { message, error, detail } = parsed as Record<string, unknown>
    return [message, error, detail].find(value => typeof value === 'string')
  } catch {
    return undefined
  }
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
