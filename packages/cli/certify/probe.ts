import { setTimeout as wait } from 'node:timers/promises'
import type { Fetch } from 'sluice/client'
import { abortable, withTimeout } from 'sluice/core'
import { createHttp, type HttpAnswer } from 'sluice/internal'
import { type Credentials, generateAuthHeaders } from 'sluice/plugins/hmac-auth'
import { AnswerDates } from '../doctor/context.js'

/** How a request differs from a correct one. */
export interface Variation {
  readonly method?: string
  /** Milliseconds by which the time of the signature is wrong. */
  readonly shiftMs?: number
  readonly apiKey?: string
  readonly userSecret?: string
  /** The method and the path that are signed, in place of those that are sent. */
  readonly signedMethod?: string
  readonly signedPath?: string
  /** Changes the headers after they were signed. */
  readonly alter?: (headers: Headers) => void
}

/** An answer, and what its body is. */
export interface ProbeAnswer {
  readonly status: number
  readonly headers: Headers
  /** The value of the body; undefined if the body is not JSON. */
  readonly json: unknown
  /** Describes the body without quoting it: it could repeat a key. */
  readonly form: string
  /** Milliseconds from the signature to the answer. */
  readonly ms: number
}

/** The settings of a probe. */
export interface ProbeOptions {
  readonly endpoint: string
  readonly credentials: Credentials
  readonly fetch: Fetch
  /** The most requests in a second. */
  readonly rate: number
  /** The most requests and upgrades in all. */
  readonly budget: number
  /** Aborts when no request may be sent any more. */
  readonly signal: AbortSignal
}

/** Milliseconds within which a request must be answered. */
const TIMEOUT = 10_000
const MAX_BYTES = 33_554_432
/** The answers that are asked for once more: the service is too busy, or away for a moment. */
const TRANSIENT: ReadonlySet<number> = new Set([429, 502, 503, 504])
/**
 * Milliseconds after which a signature may have been too old when it arrived. The service allows
 * 5 s. This process may have been stopped, or the network may be slow.
 */
const MAX_AGE = 4000
/** The longest wait before a second attempt, in milliseconds. */
const MAX_WAIT = 10_000

/**
 * Sends requests one after the other, at a limited rate and up to a limited number. It signs them
 * itself, so that each part of a signature can be wrong, and shows answers as they came.
 */
export class Probe {
  readonly #options: ProbeOptions
  readonly #http: ReturnType<typeof createHttp>
  readonly dates: AnswerDates = new AnswerDates()
  /** The round trips by path, in milliseconds. */
  readonly roundTrips: Map<string, number[]> = new Map()
  /** How many answers had each status. */
  readonly statuses: Map<number, number> = new Map()
  /** How many answers lacked `Date`, and how many had the list of origins. */
  withoutDate = 0
  withOrigins = 0
  /** How many requests were answered. */
  answers = 0
  /** How many requests and upgrades were sent. */
  sent = 0
  /** Milliseconds by which this machine's clock is corrected for signatures. */
  offset = 0
  #nextAt = 0

  constructor(options: ProbeOptions) {
    this.#options = options
    this.#http = createHttp(options.fetch)
  }

  /** The current time by which requests are signed. */
  now(): number {
    return Date.now() + this.offset
  }

  /** Waits until a request or an upgrade may be sent, and counts it. */
  async takeSlot(): Promise<void> {
    const { rate, budget, signal } = this.#options
    signal.throwIfAborted()
    if (this.sent >= budget) throw new Error(`the limit of ${budget} requests is reached`)
    this.sent++
    const now = performance.now()
    const at = Math.max(now, this.#nextAt)
    this.#nextAt = at + 1000 / rate
    if (at > now) await wait(at - now, undefined, { signal })
  }

  /** The headers that sign a request to a URL. */
  async sign(url: string, variation: Variation = {}): Promise<Headers> {
    const { credentials } = this.#options
    const { method = 'GET', signedMethod = method, signedPath, shiftMs = 0 } = variation
    const { apiKey = credentials.apiKey, userSecret = credentials.userSecret } = variation
    const signed = signedPath === undefined ? url : new URL(signedPath, url).href
    const time = this.now() + shiftMs
    const made = generateAuthHeaders(apiKey, userSecret, signedMethod, signed, '', time)
    const headers = new Headers(Object.entries(made))
    variation.alter?.(headers)
    return headers
  }

  /**
   * Sends a request to a path, and returns the answer, whatever its status. A request that fails,
   * or whose answer says that the service is away for a moment, is sent once more. So is a request
   * that was refused when its signature may have been too old.
   */
  async ask(path: string, variation: Variation = {}): Promise<ProbeAnswer> {
    const { signal } = this.#options
    let pause = 1000
    try {
      const answer = await this.#askOnce(path, variation)
      if (!TRANSIENT.has(answer.status)) return answer
      const seconds = Number(answer.headers.get('retry-after') ?? 1)
      pause = Math.min(MAX_WAIT, Math.max(0, seconds || 1) * 1000)
    } catch (thrown) {
      if (signal.aborted) throw thrown
    }
    await wait(pause, undefined, { signal })
    return this.#askOnce(path, variation)
  }

  async #askOnce(path: string, variation: Variation): Promise<ProbeAnswer> {
    await this.takeSlot()
    const url = new URL(path, this.#options.endpoint).href
    const signedAt = performance.now()
    const headers = await this.sign(url, variation)
    const { method = 'GET' } = variation
    const late = (): Error => new Error(`no answer within ${TIMEOUT / 1000} s`)
    const ask = (signal: AbortSignal): Promise<HttpAnswer> =>
      abortable(this.#http({ method, url, headers, signal }, MAX_BYTES), signal)
    const [sentAt, startedAt] = [Date.now(), performance.now()]
    const answer = await withTimeout(TIMEOUT, late, ask, this.#options.signal)
    this.#note(new URL(url).pathname, answer, sentAt, performance.now() - startedAt)
    const ms = performance.now() - signedAt
    checkAge(answer.status, ms, variation)
    return { status: answer.status, headers: answer.headers, ms, ...read(answer.body) }
  }

  #note(path: string, { status, headers }: HttpAnswer, sentAt: number, ms: number): void {
    this.answers++
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1)
    if (!this.dates.note(headers.get('date'), sentAt, Date.now())) this.withoutDate++
    if (headers.has('x-cll-available-origins')) this.withOrigins++
    const trips = this.roundTrips.get(path) ?? []
    this.roundTrips.set(path, trips)
    trips.push(ms)
  }
}

/**
 * Throws if a request was refused whose signature may have been too old. Then its status says
 * nothing about the rest of the request. A request whose time is wrong on purpose is left alone.
 */
export function checkAge(status: number, ms: number, { shiftMs = 0 }: Variation = {}): void {
  if (status === 401 && ms > MAX_AGE && shiftMs === 0)
    throw new Error(`answered ${status} when the signature was ${(ms / 1000).toFixed(1)} s old`)
}

function read(body: Uint8Array): Pick<ProbeAnswer, 'json' | 'form'> {
  if (body.length === 0) return { json: undefined, form: 'an empty body' }
  const text = Buffer.from(body).toString()
  try {
    const json: unknown = JSON.parse(text)
    return { json, form: 'JSON' }
  } catch {
    return { json: undefined, form: /^\s*</.test(text) ? 'HTML' : 'text' }
  }
}

/** A member of a JSON value, if that is an object. */
export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}

/** The reports of an answer to a page or to bulk; undefined if it has none. */
export function reportsIn({ json }: ProbeAnswer): readonly unknown[] | undefined {
  const reports = memberOf(json, 'reports')
  return Array.isArray(reports) ? reports : undefined
}
