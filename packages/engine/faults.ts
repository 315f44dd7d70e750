import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http'
import type { Duplex } from 'node:stream'
import { checkNumber, checkOptions, type OptionNames } from 'sluice/core'
import type { Answer } from 'sluice/internal'

/** An answer that replaces the real one. */
export interface Failure {
  /** HTTP status, 200 to 599: a success with a wrong body is a failure too. */
  readonly status: number
  /** How many requests or upgrades get this answer. @default 1 */
  readonly times?: number
  /** The method it is for; HEAD is how origins are discovered. @default every method */
  readonly method?: string
  /** The start of the paths (with query) it is for. @default every path */
  readonly path?: string
  /** The value of the header Retry-After: seconds, a date, or anything else. */
  readonly retryAfter?: number | string
  /** The body, sent unchanged. @default a JSON object with a message */
  readonly body?: string | Uint8Array
  /** Further headers; they override the engine's own. */
  readonly headers?: Readonly<Record<string, string>>
  /** Milliseconds before the answer. @default 0 */
  readonly delayMs?: number
}

const names: OptionNames<Failure> = {
  status: true,
  times: true,
  method: true,
  path: true,
  retryAfter: true,
  body: true,
  headers: true,
  delayMs: true,
}

/** The faults of a listener's answers. */
export interface Faults {
  /** Adds a failure; the returned function removes it. */
  readonly fail: (failure: Failure) => () => void
  /** Answers the next `times` upgrades with a status; undefined ends it. */
  readonly refuse: (status: number | undefined, times?: number) => void
  /** While on, nothing is answered. */
  readonly blackhole: (on: boolean) => void
  /** Goes on at once, or when the blackhole ends, or never if the socket is closed by then. */
  readonly whenReachable: (socket: Duplex, goOn: () => void) => void
  /** Goes on with a request or an upgrade, and with the failure to answer it with, if there is one. */
  readonly intercept: (
    request: IncomingMessage,
    isUpgrade: boolean,
    goOn: (failure: Answer | undefined) => void,
  ) => void
  /** Uses up the failure for a request or an upgrade. */
  readonly nextFailure: (request: IncomingMessage, isUpgrade: boolean) => Failure | undefined
  /** Removes every failure and every delayed request. */
  readonly clear: () => void
}

function checkFailure(method: string, failure: Failure): void {
  const { status, times = 1, delayMs = 0, headers = {} } = checkOptions(method, failure, names)
  checkNumber(`${method}: status`, status, { min: 200, max: 599, whole: true })
  checkNumber(`${method}: times`, times, { min: 1, infinite: true })
  checkNumber(`${method}: delayMs`, delayMs, { min: 0 })
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name)
    validateHeaderValue(name, value)
  }
}

function answerOf({ status, body, headers = {}, retryAfter }: Failure): Answer {
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
  readonly failure: Failure
  left: number
}

/** No faults yet. Failures of `outer` apply after its own. */
export function createFaults(outer?: Faults): Faults {
  const failures = new Set<ActiveFailure>()
  const delays = new Set<NodeJS.Timeout>()
  let rejection: ActiveFailure | undefined
  let unanswered: (() => void)[] = []
  let isBlackhole = false

  function nextFailure(request: IncomingMessage, isUpgrade: boolean): Failure | undefined {
    const { method, url = '' } = request
    if (isUpgrade && rejection !== undefined) {
      const { failure } = rejection
      if (--rejection.left <= 0) rejection = undefined
      return failure
    }
    for (const entry of failures) {
      const { failure } = entry
      if (failure.method !== undefined && failure.method !== method) continue
      if (!url.startsWith(failure.path ?? '')) continue
      if (--entry.left <= 0) failures.delete(entry)
      return failure
    }
    return outer?.nextFailure(request, isUpgrade)
  }

  function whenReachable(socket: Duplex, goOn: () => void): void {
    if (socket.destroyed) return
    if (isBlackhole) unanswered.push(() => whenReachable(socket, goOn))
    else goOn()
  }

  return {
    fail(failure) {
      checkFailure('fail', failure)
      const entry = { failure, left: failure.times ?? 1 }
      failures.add(entry)
      return () => void failures.delete(entry)
    },
    refuse(status, times = Number.POSITIVE_INFINITY) {
      if (status !== undefined) checkFailure('refuse', { status, times })
      rejection = status === undefined ? undefined : { failure: { status }, left: times }
    },
    blackhole(on) {
      isBlackhole = on
      if (on) return
      const waiting = unanswered
      unanswered = []
      for (const goOn of waiting) goOn()
    },
    whenReachable,
    intercept(request, isUpgrade, goOn) {
      const { socket } = request
      whenReachable(socket, function findFailure() {
        const failure = nextFailure(request, isUpgrade)
        const answer = failure && answerOf(failure)
        if (!failure?.delayMs) return goOn(answer)
        const delay = setTimeout(function answerLate() {
          delays.delete(delay)
          whenReachable(socket, () => goOn(answer))
        }, failure.delayMs)
        delays.add(delay)
      })
    },
    nextFailure,
    clear() {
      failures.clear()
      rejection = undefined
      for (const delay of delays) clearTimeout(delay)
      delays.clear()
      unanswered = []
    },
  }
}
