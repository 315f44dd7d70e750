import type { DataStreamsError } from '../../core/errors.js'
import { TextDecoder } from '../../core/platform.js'
import type { Call } from '../call.js'
import { describeCall } from '../call.js'
import { APIError, AuthenticationError, WebSocketError } from '../errors.js'
import type { HttpAnswer } from '../transport/http.js'

/** The service refuses requests whose timestamp is further than this from its own clock, in milliseconds. */
const ALLOWED_SKEW = 5_000
const MAX_DETAIL = 200

/** The error for an answer whose status is no success. */
export function errorFromAnswer(
  call: Call,
  { status, headers, body }: HttpAnswer,
  now: () => number,
): DataStreamsError {
  const facts = [`${describeCall(call)} answered ${status}`, ...detail(call, body)]
  const serverTime = parseDate(headers.get('date'))
  // Both dates are by the service's clock, so whether this machine's is wrong does not matter.
  const answeredAt = serverTime === undefined ? now : () => serverTime
  const retryAfter = parseRetryAfter(headers.get('retry-after'), answeredAt)
  if (retryAfter !== undefined) facts.push(`Retry-After: ${retryAfter / 1000} s`)
  if (status === 401 || status === 403) {
    const skew = serverTime === undefined ? undefined : clockSkew(call, serverTime, now)
    return new AuthenticationError(
      [
        ...facts,
        ...(skew === undefined ? [] : [skew]),
        'The service answers alike for a wrong key, a wrong signature, a wrong clock and a feed you may not read.',
      ].join('\n  '),
      { statusCode: status, retryAfter, serverTime },
    )
  }
  if (status >= 300 && status < 400)
    facts.push('A redirect is not followed: the signature covers the URL it was made for.')
  const message = facts.join('\n  ')
  return call.kind === 'stream'
    ? new WebSocketError(message, { code: 'WS_REFUSED', statusCode: status, retryAfter })
    : new APIError(message, { statusCode: status, retryAfter })
}

/**
 * Milliseconds to wait, from a Retry-After header: seconds, or a date, which is compared with `now`. Undefined where it says
 * nothing we understand.
 */
export function parseRetryAfter(value: string | null, now: () => number): number | undefined {
  if (value === null) return undefined
  const text = value.trim()
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000
  const date = parseDate(text)
  return date === undefined ? undefined : Math.max(0, date - now())
}

/** A date of a header, in Unix milliseconds; undefined where it is none. Without GMT it would be read as local time. */
function parseDate(value: string | null): number | undefined {
  const date = /^[A-Za-z]{3}.* GMT$/.test(value ?? '') ? Date.parse(value as string) : Number.NaN
  return Number.isNaN(date) ? undefined : date
}

function clockSkew(call: Call, serverTime: number, now: () => number): string | undefined {
  const skew = now() - serverTime
  // A wrong clock that the signature was corrected for is not to blame.
  const stamp = call.headers.get('x-authorization-timestamp')
  if (isAllowed(skew) || (stamp !== null && isAllowed(Number(stamp) - serverTime))) return undefined
  const seconds = Math.round(Math.abs(skew) / 1000)
  return `This machine's clock is ${seconds} s ${skew > 0 ? 'ahead of' : 'behind'} the service's: more than the ${ALLOWED_SKEW / 1000} s it allows. Set the clock.`
}

function isAllowed(skew: number): boolean {
  // The header counts whole seconds, so up to one of them is no skew.
  return skew < ALLOWED_SKEW + 1000 && skew > -ALLOWED_SKEW
}

/** What the service says in its own words: one short printable line, unless it repeats what was sent in a header. */
function detail(call: Call, body: Uint8Array): string[] {
  if (body.length === 0 || body.length > 65_536) return []
  const text = messageOf(new TextDecoder().decode(body))
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

/** Long enough to be no coincidence, short enough to find a secret that was cut. */
const REPEATED = 8
/** A value of less stands in many a text by chance: to look for it would leave nothing of what the service says. */
const MIN_RECOGNISABLE = 4
/** No secrets. */
const harmless = ['accept', 'user-agent', 'x-authorization-timestamp', 'x-cll-origin']

/**
 * True where a run of a header's value stands in the text, whatever the case and whatever stands in between; for what goes
 * into errors, logs and names.
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
