import { checkNumber, checkOptions, type OptionNames } from 'sluice/core'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { createTokenBucket, type TokenBucket } from './token-bucket.js'

/** What each caller may ask of an enclave. */
export interface CallerLimits {
  /** How many requests a second, on average; after a quiet second, so many at once. @default no limit */
  readonly requestsPerSecond?: number
  /** How many requests that are not answered. @default 64 */
  readonly requestsAtOnce?: number
  /** How many bytes of sealed requests and answers a second, on average. @default no limit */
  readonly bytesPerSecond?: number
}

const names: OptionNames<CallerLimits> = {
  requestsPerSecond: true,
  requestsAtOnce: true,
  bytesPerSecond: true,
}

/** Holds each caller to its limits. */
export interface CallerGuard {
  /**
   * Counts a request of a caller that has so many bytes, and returns what is called with the size of its answer. Throws
   * EnclaveError (`RATE_LIMIT`) if the caller has reached a limit.
   */
  enter(caller: string, bytes: number): (answerBytes: number) => void
}

/** Milliseconds after which a caller with too many requests under way may look again. */
const LOOK_AGAIN = 100

interface Usage {
  readonly requests: TokenBucket | undefined
  readonly bytes: TokenBucket | undefined
  atOnce: number
}

/** Makes the guard of an enclave, whose callers are known and few. */
export function createCallerGuard(options: CallerLimits = {}, now?: () => number): CallerGuard {
  const { requestsPerSecond, requestsAtOnce, bytesPerSecond } = checkLimits(options)
  const usages = new Map<string, Usage>()

  function usageOf(caller: string): Usage {
    const known = usages.get(caller)
    if (known !== undefined) return known
    const bucket = (rate: number | undefined): TokenBucket | undefined =>
      rate === undefined ? undefined : createTokenBucket(rate, Math.max(1, rate), now)
    const usage = { requests: bucket(requestsPerSecond), bytes: bucket(bytesPerSecond), atOnce: 0 }
    usages.set(caller, usage)
    return usage
  }

  return {
    enter(caller, size) {
      const usage = usageOf(caller)
      const { requests, bytes } = usage
      if (usage.atOnce >= requestsAtOnce)
        throw limited(`${requestsAtOnce} requests at once`, LOOK_AGAIN)
      const untilRequest = requests?.msUntil(1) ?? 0
      if (untilRequest > 0) throw limited(`${requestsPerSecond} requests a second`, untilRequest)
      const untilBytes = bytes?.msUntil(1) ?? 0
      if (untilBytes > 0) throw limited(`${bytesPerSecond} bytes a second`, untilBytes)
      requests?.spend(1)
      bytes?.spend(size)
      usage.atOnce++
      return function leave(answerBytes) {
        usage.atOnce--
        bytes?.spend(answerBytes)
      }
    },
  }
}

/** Checks the limits, and sets the defaults. */
function checkLimits(options: CallerLimits): CallerLimits & { readonly requestsAtOnce: number } {
  const given = checkOptions('callerLimits', options, names)
  for (const name of ['requestsPerSecond', 'bytesPerSecond'] as const)
    if (given[name] !== undefined) checkNumber(`callerLimits.${name}`, given[name], { min: 0.001 })
  const requestsAtOnce = checkNumber('callerLimits.requestsAtOnce', given.requestsAtOnce ?? 64, {
    min: 1,
    whole: true,
  })
  return { ...given, requestsAtOnce }
}

function limited(limit: string, retryAfter: number): EnclaveError {
  return new EnclaveError(
    `this caller has reached its limit of ${limit}: ask again in ${retryAfter} ms`,
    { code: 'RATE_LIMIT', mayHaveBeenSent: false, isRetryable: true, retryAfter },
  )
}
