import {
  AuthenticationError,
  type Call,
  EntitlementError,
  isDenial,
} from '../../client/contract/call.js'
import type { Handler, Plugin } from '../../client/contract/plugin.js'
import { credentialsKey } from '../../client/contract/scope.js'
import { type DataStreamsError, isStreamsError } from '../../core/errors.js'
import {
  checkFunction,
  optional,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from '../../core/options.js'
import type { ServiceKey } from '../../core/scope.js'
import type { WebCrypto } from '../../crypto/crypto.js'
import {
  type Credentials,
  checkKey,
  checkSecret,
  Keyring,
  type RenewCredentials,
  ServiceClock,
} from './keyring.js'

export { generateAuthHeaders, generateAuthHeadersAsync } from './auth-headers.js'
export type { Credentials }

/** Options of `hmacAuth`. */
export interface HmacAuthOptions extends Credentials {
  /**
   * Returns other credentials after the service has rejected the current ones. It is called at most
   * once a second, and may take 10 s. @default the rejection stands
   */
  readonly renewCredentials?: RenewCredentials
  /**
   * The wall clock, in milliseconds of Unix time. The service rejects signatures if this clock is
   * more than 5 s off. Then the service's time is used. @default Date.now
   */
  readonly now?: () => number
  /** Computes the signature. @default Node's own HMAC; elsewhere the platform's WebCrypto */
  readonly crypto?: WebCrypto
}

const schema = {
  apiKey: checkKey,
  userSecret: checkSecret,
  renewCredentials: optional(checkFunction<RenewCredentials>),
  now: withDefault(() => Date.now(), checkFunction<() => number>),
  crypto: unchecked<WebCrypto | undefined>,
} satisfies Schema<HmacAuthOptions>

/**
 * Signs every attempt of every call, both REST requests and stream upgrades. The plugin runs inside
 * `retry`, so each attempt has its own signature.
 *
 * If the `Date` of a rejection shows that this machine's clock is wrong, the next attempt is signed
 * with the service's time. Otherwise it is signed with the keys that `renewCredentials` returns, if
 * they are new. In both cases the error is `isCorrected`, and `retry` tries again at once, at most
 * twice. A stack without `retry` signs once. Later calls use the time and keys that the service
 * accepted. A clock is corrected by at most 24 h, so that a forged `Date` can't obtain signatures
 * for distant times.
 */
export function hmacAuth(options: HmacAuthOptions): Plugin<never> {
  const { now, crypto, renewCredentials, ...credentials } = readOptions('hmacAuth', options, schema)
  const signingClock: ServiceKey<ServiceClock> = { name: 'the clock of signatures' }

  function signed(next: Handler): Handler {
    let clock: ServiceClock | undefined
    const keyring = new Keyring(credentials, renewCredentials, crypto)
    const corrections = new Corrections()

    return async function signAttempt(call) {
      const { keys } = keyring
      // An enclave has no client.
      clock ??= call.scope.client?.find(signingClock) ?? new ServiceClock(now)
      if (keyring.onChange === undefined) {
        const credentials = call.scope.client?.find(credentialsKey)
        if (credentials !== undefined) keyring.onChange = () => void credentials.generation++
      }
      const sign = await keys.signer()
      // Read after the load of the signer: a signature is valid for seconds.
      const read = clock.read()
      const moment = { ...read, offset: corrections.take(call) ?? read.offset }
      const signature = await sign(call.method, call.url, call.body, moment.at + moment.offset)
      for (const [name, value] of Object.entries(signature)) call.headers.set(name, value)
      const { log } = call.scope
      log.debug?.(`auth headers generated for ${call.operation}`, { operation: call.operation })
      try {
        const reply = await next(call)
        clock.confirm(moment.offset, log)
        return reply
      } catch (error) {
        if (!isDenial(error)) throw error
        const offset = clock.offsetAfter(moment, error.serverTime)
        if (offset === moment.offset) {
          await keyring.renew(keys, call)
          if (keyring.keys === keys) throw error
        }
        corrections.set(call, offset)
        throw corrected(error)
      }
    }
  }
  return {
    name: 'hmac-auth',
    setup(scope) {
      scope.provide(signingClock, new ServiceClock(now))
      scope.provide(credentialsKey, { generation: 0 })
    },
    attempt: signed,
  }
}

/**
 * The clock offsets for the next attempts of calls. Attempts of a call share its scope, URL and
 * origin, but not always its signal: a plugin may give each attempt a signal of its own.
 */
class Corrections {
  readonly #scopes = new WeakMap<AbortSignal, Map<string, number>>()

  set(call: Call, offset: number): void {
    const { signal } = call.scope
    const offsets = this.#scopes.get(signal) ?? new Map<string, number>()
    this.#scopes.set(signal, offsets.set(keyOf(call), offset))
  }

  /** Returns the offset of a call and forgets it. */
  take(call: Call): number | undefined {
    const offsets = this.#scopes.get(call.scope.signal)
    const offset = offsets?.get(keyOf(call))
    offsets?.delete(keyOf(call))
    return offset
  }
}

function keyOf({ url, originID = '' }: Call): string {
  return `${url} ${originID}`
}

/**
 * Returns a copy of the error that is marked as corrected, so that the next attempt need not wait.
 */
function corrected(error: AuthenticationError | EntitlementError): DataStreamsError {
  const { message, statusCode, retryAfter, serverTime, feedIDs, cause } = error
  const Denied = isStreamsError(error, 'ENTITLEMENT') ? EntitlementError : AuthenticationError
  return new Denied(message, {
    statusCode,
    retryAfter,
    serverTime,
    feedIDs,
    ...(cause === undefined ? {} : { cause }),
    isRetryable: true,
    isCorrected: true,
  })
}
