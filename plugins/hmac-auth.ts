import type { Call, Reply } from '../client/call.js'
import type { AuthenticationError } from '../client/errors.js'
import { onConnected } from '../client/on-connected.js'
import type { Handler, Plugin } from '../client/plugin.js'
import { isStreamsError } from '../core/errors.js'
import { checkFunction } from '../core/options.js'
import type { WebCrypto } from '../crypto/crypto.js'
import {
  type Credentials,
  checkCredentials,
  createKeyring,
  type Keys,
  type RenewCredentials,
} from './hmac-auth/keyring.js'
import { createServiceClock, type Moment } from './hmac-auth/service-clock.js'
import { createSigner } from './hmac-auth/signer.js'

export type { Credentials }

/** Options of `hmacAuth`. */
export interface HmacAuthOptions extends Credentials {
  /**
   * Gives the credentials to go on with where the service refuses those in use: they may have been changed. Asked once a
   * second at most, and waited for no longer than 10 s. @default the refusal stands
   */
  readonly renewCredentials?: RenewCredentials
  /** The wall clock, in milliseconds: where it is more than 5 s off, the service's is learnt. @default Date.now */
  readonly now?: () => number
  /** Computes the signature. @default @peculiar/webcrypto */
  readonly crypto?: WebCrypto
}

/**
 * Signs every attempt of every call, REST requests and stream upgrades alike. As it runs inside retry, no attempt
 * carries the signature of another.
 *
 * An attempt that is refused is signed once more where the `Date` of the answer says that this machine's clock is wrong,
 * and, where that is not it, once more where `renewCredentials` gives other keys. What is let in then, all that follow are
 * signed by. A clock is corrected by 24 h at most, so that a forged `Date` gets no signatures for distant times.
 */
export function hmacAuth(options: HmacAuthOptions): Plugin<never> {
  const credentials = checkCredentials(options)
  const { now = Date.now, crypto, renewCredentials } = options
  checkFunction('now', now)
  if (renewCredentials !== undefined) checkFunction('renewCredentials', renewCredentials)

  function signed(next: Handler): Handler {
    const clock = createServiceClock(now)
    const keyring = createKeyring(credentials, renewCredentials, crypto)

    async function send(call: Call, { keys, at, offset }: Signature): Promise<Reply> {
      const signature = await keys.sign(call.method, call.url, call.body, at + offset)
      for (const [name, value] of Object.entries(signature)) call.headers.set(name, value)
      call.scope.log.debug?.(`auth headers generated for ${call.operation}`, {
        operation: call.operation,
      })
      const letIn = (): void => clock.confirm(offset, call.scope.log)
      const forget = call.kind === 'stream' ? onConnected(call, letIn) : undefined
      try {
        const reply = await next(call)
        letIn()
        return reply
      } finally {
        forget?.()
      }
    }

    /** What to sign with after a refusal; undefined where it has taught nothing. */
    async function learn(
      { keys, ...refused }: Signature,
      { serverTime }: AuthenticationError,
      call: Call,
    ): Promise<Signature | undefined> {
      const offset = clock.offsetAfter(refused, serverTime)
      if (offset === refused.offset) {
        await keyring.renew(keys, call)
        if (keyring.keys === keys) return undefined
      }
      return { keys: keyring.keys, ...clock.read(), offset }
    }

    return async function signAttempt(call) {
      let signature: Signature = { keys: keyring.keys, ...clock.read() }
      for (let tries = 1; ; tries++) {
        try {
          return await send(call, signature)
        } catch (error) {
          if (!isStreamsError(error, 'AUTHENTICATION') || tries === MAX_TRIES) throw error
          const better = await learn(signature, error, call)
          if (better === undefined) throw error
          signature = better
        }
        if (call.kind === 'request') await call.turn?.()
      }
    }
  }
  return { name: 'hmac-auth', attempt: signed }
}

/** As it is, by another clock, and with other keys. */
const MAX_TRIES = 3

/** What an attempt was signed with. */
interface Signature extends Moment {
  readonly keys: Keys
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
export function generateAuthHeaders(
  apiKey: string,
  userSecret: string,
  method: string,
  url: string,
  body: string | Uint8Array = '',
  timestamp: number = Date.now(),
  crypto?: WebCrypto,
): Promise<Record<string, string>> {
  return createSigner(apiKey, userSecret, crypto)(method, url, body, timestamp)
}
