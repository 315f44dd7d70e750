import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http'
import type { Duplex } from 'node:stream'
import {
  type Checked,
  number,
  optional,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from 'sluice/core'
import type { HTTPAnswer } from 'sluice/internal'
import type { EngineClock } from './clock.js'

/** An answer that the engine sends instead of the real answer. */
export interface Failure {
  /**
   * The HTTP status, 200 to 599. A 2xx status is allowed, because a success with a wrong body is
   * also a failure.
   */
  readonly status: number
  /** How many requests or upgrades get this answer. @default 1 */
  readonly times?: number
  /**
   * The HTTP method that the failure applies to. Clients discover origins with HEAD. @default every
   * method
   */
  readonly method?: string
  /**
   * The failure applies to requests whose path and query start with this text. @default every path
   */
  readonly path?: string
  /** The value of the `Retry-After` header: seconds, a date, or any other text. */
  readonly retryAfter?: number | string
  /** The body, sent unchanged. @default a JSON object with a message */
  readonly body?: string | Uint8Array
  /** Further headers; they override the engine's own. */
  readonly headers?: Readonly<Record<string, string>>
  /** Milliseconds to wait before the answer. @default 0 */
  readonly delayMs?: number
}

const schema = {
  status: number({ min: 200, max: 599, whole: true }),
  times: withDefault(1, number({ min: 1, infinite: true })),
  method: unchecked<string | undefined>,
  path: unchecked<string | undefined>,
  retryAfter: unchecked<number | string | undefined>,
  body: unchecked<string | Uint8Array | undefined>,
  headers: optional(checkHeaders),
  delayMs: withDefault(0, number({ min: 0 })),
} satisfies Schema<Failure>

type CheckedFailure = Checked<typeof schema>

function checkHeaders(_field: string, headers: unknown): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(headers as Record<string, string>)) {
    validateHeaderName(name)
    validateHeaderValue(name, value)
  }
  return headers as Record<string, string>
}

function answerOf({ status, body, headers = {}, retryAfter }: CheckedFailure): HTTPAnswer {
  const given = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return {
    status,
    headers: {
      'content-type': 'application/json',
      ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
      ...Object.fromEntries(given),
    },
    body: body ?? JSON.stringify({ message: `made to fail with ${status}` }),
  }
}

interface ActiveFailure {
  readonly failure: CheckedFailure
  left: number
}

/** The faults of a listener's answers. At first, no fault is set. */
export class Faults {
  readonly #clock: EngineClock
  readonly #outer: Faults | undefined
  readonly #failures = new Set<ActiveFailure>()
  /** The functions that cancel the delays of answers. */
  readonly #delays = new Set<() => void>()
  #refusal: ActiveFailure | undefined
  #unanswered: (() => void)[] = []
  #isBlackhole = false

  /** Failures of `outer` apply to requests that match no failure of this instance. */
  constructor(clock: EngineClock, outer?: Faults) {
    this.#clock = clock
    this.#outer = outer
  }

  /** Adds a failure; the returned function removes it. */
  fail(given: Failure): () => void {
    const entry = activate('fail', given)
    this.#failures.add(entry)
    return () => void this.#failures.delete(entry)
  }

  /** Answers the next `times` upgrades with a status. `undefined` ends this. */
  refuse(status: number | undefined, times: number = Number.POSITIVE_INFINITY): void {
    this.#refusal = status === undefined ? undefined : activate('refuse', { status, times })
  }

  /** While on, the listener answers nothing. */
  blackhole(on: boolean): void {
    this.#isBlackhole = on
    if (on) return
    const waiting = this.#unanswered
    this.#unanswered = []
    for (const resume of waiting) resume()
  }

  /**
   * Calls back at once, or when the blackhole ends. If the socket has closed by then, it never
   * calls back.
   */
  whenReachable(socket: Duplex, callback: () => void): void {
    if (socket.destroyed) return
    if (this.#isBlackhole) this.#unanswered.push(() => this.whenReachable(socket, callback))
    else callback()
  }

  /**
   * Finds the failure that is due for a request or an upgrade. Calls back with its answer, or with
   * undefined if no failure is due.
   */
  intercept(
    request: IncomingMessage,
    isUpgrade: boolean,
    callback: (failure: HTTPAnswer | undefined) => void,
  ): void {
    const { socket } = request
    this.whenReachable(socket, () => {
      const failure = this.#nextFailure(request, isUpgrade)
      const answer = failure && answerOf(failure)
      if (!failure?.delayMs) return callback(answer)
      const cancel = this.#clock.after(failure.delayMs, () => {
        this.#delays.delete(cancel)
        this.whenReachable(socket, () => callback(answer))
      })
      this.#delays.add(cancel)
    })
  }

  /** Removes every failure, and drops every delayed or unanswered request. */
  clear(): void {
    this.#failures.clear()
    this.#refusal = undefined
    for (const cancel of this.#delays) cancel()
    this.#delays.clear()
    this.#unanswered = []
  }

  /** Returns the failure that is due for a request or an upgrade, and counts its use. */
  #nextFailure(request: IncomingMessage, isUpgrade: boolean): CheckedFailure | undefined {
    const { method, url = '' } = request
    if (isUpgrade && this.#refusal !== undefined) {
      const { failure } = this.#refusal
      if (--this.#refusal.left <= 0) this.#refusal = undefined
      return failure
    }
    for (const entry of this.#failures) {
      const { failure } = entry
      if (failure.method !== undefined && failure.method !== method) continue
      if (!url.startsWith(failure.path ?? '')) continue
      if (--entry.left <= 0) this.#failures.delete(entry)
      return failure
    }
    const outer = this.#outer
    return outer === undefined ? undefined : outer.#nextFailure(request, isUpgrade)
  }
}

function activate(method: string, given: Failure): ActiveFailure {
  const failure = readOptions(method, given, schema, `${method}: `)
  return { failure, left: failure.times }
}
