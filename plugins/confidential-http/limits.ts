import { withTimeout } from '../../core/lifetime.js'
import {
  checkNumber,
  MAX_TIMER,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { type ConfidentialCall, type EnclavePlugin, requestSize, utf8Length } from './call.js'
import { EnclaveError } from './errors.js'

/** Options of `limits`. Sizes are in bytes, times in milliseconds. */
export interface LimitsOptions {
  /** The longest timeout that a request may ask for. @default 10000 */
  readonly maxTimeout?: number
  /**
   * The timeout of a request that does not set one. @default 5000, or `maxTimeout` if that is less
   */
  readonly defaultTimeout?: number
  /**
   * The largest size of a request in UTF-8. It counts the URL, header lines, body, public values
   * and root certificates together. After the placeholders are filled, the URL, header lines and
   * body must stay within the same limit. @default 125000
   */
  readonly maxRequestBytes?: number
  /** The largest size of an answer's body after decompression. @default 500000 */
  readonly maxResponseBytes?: number
}

const schema = {
  maxTimeout: withDefault(10_000, number({ min: 1, max: MAX_TIMER })),
  defaultTimeout: optional(number({ min: 1 })),
  maxRequestBytes: withDefault(125_000, number({ min: 1, whole: true })),
  maxResponseBytes: withDefault(500_000, number({ min: 0, whole: true })),
} satisfies Schema<LimitsOptions>

/**
 * Rejects requests that are too large, and ends requests that take too long. The timeout starts
 * when the caller makes the request.
 */
export function limits(options?: LimitsOptions): EnclavePlugin {
  const given = readOptions('limits', options, schema, 'limits.')
  const { maxTimeout, maxRequestBytes, maxResponseBytes } = given
  const { defaultTimeout = Math.min(5000, maxTimeout) } = given
  checkNumber('limits.defaultTimeout', defaultTimeout, { min: 1, max: maxTimeout })

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

        // The caller's clock may be ahead, so the difference may be negative.
        const elapsed = Math.max(0, Date.now() - call.startedAt)
        if (elapsed >= timeout) throw expired(timeout, elapsed)
        const connection = { ...call.connection, maxRequestBytes, maxResponseBytes }
        return withTimeout(
          timeout - elapsed,
          () => timedOut(timeout),
          signal => next({ ...call, signal, connection }),
          call.signal,
        )
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
