import { AuthenticationError, type Call } from '../../client/contract/call.js'
import type { Handler, Plugin } from '../../client/contract/plugin.js'
import { isStreamsError, ValidationError } from '../../core/errors.js'
import { checkFunction, checkOptions, checkText, type OptionNames } from '../../core/options.js'
import type { ServiceKey } from '../../core/scope.js'
import type { WebCrypto } from '../../crypto/crypto.js'
import {
  type Credentials,
  checkCredentials,
  createKeyring,
  type Keys,
  type RenewCredentials,
} from './keyring.js'
import { createServiceClock, type Moment, type ServiceClock } from './service-clock.js'

export type { Credentials }

/** Options of `hmacAuth`. */
export interface HmacAuthOptions extends Credentials {
  /**
   * Returns other credentials after the service has rejected those in use, which may have changed. It is called once a
   * second at most, and may take 10 s. @default the rejection stands
   */
  readonly renewCredentials?: RenewCredentials
  /** The wall clock, in milliseconds; where it is more than 5 s off, the service's time is used. @default Date.now */
  readonly now?: () => number
  /** Computes the signature. @default Node's own HMAC; elsewhere the platform's WebCrypto */
  readonly crypto?: WebCrypto
}

const names: OptionNames<HmacAuthOptions> = {
  apiKey: true,
  userSecret: true,
  renewCredentials: true,
  now: true,
  crypto: true,
}

/**
 * Signs every attempt of every call, REST requests and stream upgrades alike. As it runs inside retry, no attempt
 * carries the signature of another.
 *
 * Where the `Date` of a rejection shows that this machine's clock is wrong, the next attempt is signed with the service's
 * time; otherwise with other keys, if `renewCredentials` returns them. The error is `isCorrected` then, and `retry` tries
 * again at once, twice at most; a stack without `retry` signs once. Later calls use the time and keys that were accepted.
 * A clock is corrected by 24 h at most, so that a forged `Date` gets no signatures for distant times.
 */
export function hmacAuth(options: HmacAuthOptions): Plugin<never> {
  const given = checkOptions('hmacAuth', options, names)
  const credentials = checkCredentials(given)
  const { now = Date.now, crypto, renewCredentials } = given
  checkFunction('now', now)
  if (renewCredentials !== undefined) checkFunction('renewCredentials', renewCredentials)

  const signingClock: ServiceKey<ServiceClock> = { name: 'the clock of signatures' }

  function signed(next: Handler): Handler {
    let clock: ServiceClock | undefined
    const keyring = createKeyring(credentials, renewCredentials, crypto)
    const corrections = createCorrections()

    /** The clock of the client; in an enclave there is no client. */
    function findClock({ scope }: Call): ServiceClock {
      return scope.client?.find(signingClock) ?? createServiceClock(now)
    }

    async function isCorrected(
      error: AuthenticationError,
      { keys, moment, clock }: Signature,
      call: Call,
    ): Promise<boolean> {
      const offset = clock.offsetAfter(moment, error.serverTime)
      if (offset === moment.offset) {
        await keyring.renew(keys, call)
        if (keyring.keys === keys) return false
      }
      corrections.set(call, offset)
      return true
    }

    return async function signAttempt(call) {
      const { keys } = keyring
      clock ??= findClock(call)
      const read = clock.read()
      const moment = { ...read, offset: corrections.take(call) ?? read.offset }
      const signature = await keys.sign(call.method, call.url, call.body, moment.at + moment.offset)
      for (const [name, value] of Object.entries(signature)) call.headers.set(name, value)
      const { log } = call.scope
      log.debug?.(`auth headers generated for ${call.operation}`, { operation: call.operation })
      try {
        const reply = await next(call)
        clock.confirm(moment.offset, log)
        return reply
      } catch (error) {
        if (!isStreamsError(error, 'AUTHENTICATION')) throw error
        if (!(await isCorrected(error, { keys, moment, clock }, call))) throw error
        throw corrected(error)
      }
    }
  }
  return {
    name: 'hmac-auth',
    setup(scope) {
      scope.provide(signingClock, createServiceClock(now))
    },
    attempt: signed,
  }
}

/** The clock offsets for the next attempts of calls. */
interface Corrections {
  set(call: Call, offset: number): void
  /** Returns the offset of a call and forgets it. */
  take(call: Call): number | undefined
}

/** Recognises the attempts of a call by its scope, URL and origin, since a plugin may give each a signal of its own. */
function createCorrections(): Corrections {
  const scopes = new WeakMap<AbortSignal, Map<string, number>>()

  function keyOf({ url, originID = '' }: Call): string {
    return `${url} ${originID}`
  }

  return {
    set(call, offset) {
      const { signal } = call.scope
      const offsets = scopes.get(signal) ?? new Map<string, number>()
      scopes.set(signal, offsets.set(keyOf(call), offset))
    },
    take(call) {
      const offsets = scopes.get(call.scope.signal)
      const offset = offsets?.get(keyOf(call))
      offsets?.delete(keyOf(call))
      return offset
    },
  }
}

/** The same error, marked as corrected, so that the next attempt need not wait. */
function corrected(error: AuthenticationError): AuthenticationError {
  const { message, statusCode, retryAfter, serverTime, feedIDs, cause } = error
  return new AuthenticationError(message, {
    statusCode,
    retryAfter,
    serverTime,
    feedIDs,
    ...(cause === undefined ? {} : { cause }),
    isRetryable: true,
    isCorrected: true,
  })
}

/** The keys and the time that an attempt was signed with, and the clock that this was read from. */
interface Signature {
  readonly keys: Keys
  readonly moment: Moment
  readonly clock: ServiceClock
}

/**
 * The headers that sign one request:
 *
 *     Authorization                       the API key
 *     X-Authorization-Timestamp           `timestamp`, Unix time in milliseconds
 *     X-Authorization-Signature-SHA256    HMAC-SHA256 under the user secret, lower-case hexadecimal, of
 *                                         `METHOD PATH?QUERY SHA256(BODY) API_KEY TIMESTAMP`
 *
 * `url` is absolute; its path and query are signed as they are sent.
 */
export async function generateAuthHeaders(
  apiKey: string,
  userSecret: string,
  method: string,
  url: string,
  body: string | Uint8Array = '',
  timestamp: number = Date.now(),
  crypto?: WebCrypto,
): Promise<Record<string, string>> {
  checkText('method', method)
  if (!URL.canParse(checkText('url', url))) throw new ValidationError('url must be an absolute URL')
  const { createSigner } = await import('./signer.js')
  return createSigner(apiKey, userSecret, crypto)(method, url, body, timestamp)
}
