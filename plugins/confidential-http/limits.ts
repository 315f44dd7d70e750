import { createLifetime } from '../../core/lifetime.js'
import { checkNumber, checkOptions, MAX_TIMER } from '../../core/options.js'
import type { ConfidentialCall, EnclavePlugin } from './call.js'
import { EnclaveError } from './errors.js'
import { requestSize, utf8Length } from './request-size.js'

/** Options of `limits`. Sizes are in bytes, times in milliseconds. */
export interface LimitsOptions {
  /** The longest timeout a request may ask for; one that asks for more is refused. @default 10000 */
  readonly maxTimeout?: number
  /** The timeout of a request that names none. @default 5000, or `maxTimeout` where that is less */
  readonly defaultTimeout?: number
  /**
   * What a request may come to, in UTF-8: its URL, each line of its headers, its body, public values and root certificates;
   * and once placeholders are filled, what is sent of these: URL, header lines and body. @default 125000
   */
  readonly maxRequestBytes?: number
  /** What the body of an answer may come to, unpacked. @default 500000 */
  readonly maxResponseBytes?: number
}

/** Refuses what is too much, and ends what takes too long. The timeout counts from when the caller made the request. */
export function limits(options?: LimitsOptions): EnclavePlugin {
  const given = checkOptions('limits', options, [
    'maxTimeout',
    'defaultTimeout',
    'maxRequestBytes',
    'maxResponseBytes',
  ])
  const maxTimeout = checkNumber('limits.maxTimeout', given.maxTimeout ?? 10_000, {
    min: 1,
    max: MAX_TIMER,
  })
  const defaultTimeout = checkNumber(
    'limits.defaultTimeout',
    given.defaultTimeout ?? Math.min(5000, maxTimeout),
    { min: 1, max: maxTimeout },
  )
  const maxRequestBytes = checkNumber('limits.maxRequestBytes', given.maxRequestBytes ?? 125_000, {
    min: 1,
    whole: true,
  })
  const maxResponseBytes = checkNumber(
    'limits.maxResponseBytes',
    given.maxResponseBytes ?? 500_000,
    { min: 0, whole: true },
  )

  return {
    name: 'limits',
    call: next =>
      async function limit(call) {
        const timeout = call.timeout ?? defaultTimeout
        if (timeout > maxTimeout)
          throw tooMuch(`timeout must be at most ${maxTimeout} ms, not ${timeout}`)
        const size = sizeOf(call)
        if (size > maxRequestBytes)
          throw tooMuch(`the request must be at most ${maxRequestBytes} bytes, not ${size}`)

        // The clock of whoever made the request may be ahead of ours.
        const elapsed = Math.max(0, Date.now() - call.startedAt)
        if (elapsed >= timeout) throw expired(timeout, elapsed)
        const life = createLifetime(call.signal)
        const timer = setTimeout(() => life.end(timedOut(timeout)), timeout - elapsed)
        try {
          return await next({
            ...call,
            signal: life.signal,
            connection: { ...call.connection, maxRequestBytes, maxResponseBytes },
          })
        } finally {
          clearTimeout(timer)
          life.end()
        }
      },
  }
}

function sizeOf(call: ConfidentialCall): number {
  const { publicValues, customRootCaCertPem = '' } = call
  const others = [...[...publicValues].flat(), customRootCaCertPem]
  return others.reduce((size, text) => size + utf8Length(text), requestSize(call))
}

function tooMuch(rule: string): EnclaveError {
  return new EnclaveError(rule, { code: 'LIMIT' })
}

function expired(timeout: number, elapsed: number): EnclaveError {
  return new EnclaveError(
    `the time for the request was up before it was begun: its timeout is ${timeout} ms, and it was made ${elapsed} ms ago (or by a clock that is behind the enclave's); nothing was sent`,
    { code: 'EXPIRED', mayHaveBeenSent: false },
  )
}

function timedOut(timeout: number): EnclaveError {
  return new EnclaveError(`the request was not answered within ${timeout} ms`, {
    code: 'UPSTREAM_TIMEOUT',
  })
}
