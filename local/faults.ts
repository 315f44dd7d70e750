import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Answer } from './answer.js'

/** An answer to give in place of the real one. */
export interface Failure {
  /** HTTP status, 200 to 599: a success with a wrong body is a failure too. */
  readonly status: number
  /**
   * How many requests or upgrades are answered so.
   * @default 1
   */
  readonly times?: number
  /**
   * The method it is for; HEAD is how origins are discovered.
   * @default every method
   */
  readonly method?: string
  /**
   * The start of the paths (with query) it is for.
   * @default every path
   */
  readonly path?: string
  /** The value of the header Retry-After: seconds, a date, or anything else. */
  readonly retryAfter?: number | string
  /**
   * The body, sent as it is.
   * @default a JSON object with a message
   */
  readonly body?: string | Uint8Array
  /** Further headers; they win over the engine's own. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Milliseconds before the answer.
   * @default 0
   */
  readonly delayMs?: number
}

/** What goes wrong on purpose. */
export interface Faults {
  /** Adds a failure; the function returned takes it away again. */
  readonly fail: (failure: Failure) => () => void
  /** Answers upgrades with a status, so many of them; undefined ends it. */
  readonly refuse: (status: number | undefined, times?: number) => void
  /** While on, nothing is answered. */
  readonly blackhole: (on: boolean) => void
  /** Goes on at once, or when the blackhole ends, or never if the socket is gone by then. */
  readonly whenReachable: (socket: Duplex, go: () => void) => void
  /** Lets a request or an upgrade through, with the failure it is to be answered with, if there is one. */
  readonly meet: (
    request: IncomingMessage,
    isUpgrade: boolean,
    go: (answer: Answer | undefined) => void,
  ) => void
  /** Uses up the failure a request or an upgrade is to be answered with. */
  readonly take: (request: IncomingMessage, isUpgrade: boolean) => Failure | undefined
  /** Forgets every failure, delay and held request. */
  readonly clear: () => void
}

function checkFailure(
  what: string,
  { status, times = 1, delayMs = 0, headers = {} }: Failure,
): void {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new RangeError(`${what}: status is 200 to 599, got ${status}`)
  }
  if (!(times > 0)) throw new RangeError(`${what}: times is 1 or more, got ${times}`)
  if (!(delayMs >= 0)) throw new RangeError(`fail: delayMs is 0 or more, got ${delayMs}`)
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name)
    validateHeaderValue(name, value)
  }
}

function answerOf({ status, body, headers, retryAfter }: Failure): Answer {
  const given = Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), value])
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

/** No faults, yet, but the failures of the wider ones. */
export function createFaults(wider?: Faults): Faults {
  interface Armed {
    readonly failure: Failure
    left: number
  }
  const armed = new Set<Armed>()
  let refusal: Armed | undefined
  const delays = new Set<NodeJS.Timeout>()
  let held: (() => void)[] = []
  let isBlackhole = false

  function take(request: IncomingMessage, isUpgrade: boolean): Failure | undefined {
    const { method, url = '' } = request
    if (isUpgrade && refusal !== undefined) {
      const { failure } = refusal
      refusal.left--
      if (refusal.left <= 0) refusal = undefined
      return failure
    }
    for (const entry of armed) {
      const { failure } = entry
      if (failure.method !== undefined && failure.method !== method) continue
      if (!url.startsWith(failure.path ?? '')) continue
      entry.left--
      if (entry.left <= 0) armed.delete(entry)
      return failure
    }
    return wider?.take(request, isUpgrade)
  }

  function whenReachable(socket: Duplex, go: () => void): void {
    if (socket.destroyed) return
    if (isBlackhole) held.push(() => whenReachable(socket, go))
    else go()
  }

  function meet(
    request: IncomingMessage,
    isUpgrade: boolean,
    go: (answer: Answer | undefined) => void,
  ): void {
    const { socket } = request
    whenReachable(socket, function decide() {
      const failure = take(request, isUpgrade)
      if (failure === undefined) return go(undefined)
      const answer = answerOf(failure)
      if (!failure.delayMs) return go(answer)
      const delay = setTimeout(function late() {
        delays.delete(delay)
        whenReachable(socket, () => go(answer))
      }, failure.delayMs)
      delays.add(delay)
    })
  }

  return {
    fail(failure) {
      checkFailure('fail', failure)
      const entry = { failure, left: failure.times ?? 1 }
      armed.add(entry)
      return () => void armed.delete(entry)
    },
    refuse(status, times = Number.POSITIVE_INFINITY) {
      if (status !== undefined) checkFailure('refuse', { status, times })
      refusal = status === undefined ? undefined : { failure: { status }, left: times }
    },
    blackhole(on) {
      isBlackhole = on
      if (on) return
      const waiting = held
      held = []
      for (const go of waiting) go()
    },
    whenReachable,
    meet,
    take,
    clear() {
      armed.clear()
      refusal = undefined
      for (const delay of delays) clearTimeout(delay)
      delays.clear()
      held = []
    },
  }
}
