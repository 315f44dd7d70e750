import type { Call } from '../../client/contract/call.js'
import { isStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import { checkText } from '../../core/options.js'
import { sleep } from '../../core/async.js'
import type { WebCrypto } from '../../crypto/crypto.js'
import type { createSigner, Signer } from './signer.js'

/** The key and secret that sign requests. */
export interface Credentials {
  /** The API key, sent as `Authorization`. */
  readonly apiKey: string
  /** The user secret, which keys the signature and is never sent. */
  readonly userSecret: string
}

/** Returns the credentials to use from now on. */
export type RenewCredentials = () => Credentials | Promise<Credentials>

/** Credentials and their signer. */
export interface Keys extends Credentials {
  readonly sign: Signer
}

/** The keys in use, and the request for others. */
export interface Keyring {
  readonly keys: Keys
  /** Requests other keys in place of these, which were rejected. Rejects when the call's signal aborts meanwhile. */
  renew(rejected: Keys, call: Call): Promise<void>
}

/** Milliseconds between two requests for other keys. */
const PAUSE = 1000
/** Milliseconds that a call waits for an answer. */
const PATIENCE = 10_000

/** Creates a keyring with these keys, which never change without `renewCredentials`. */
export function createKeyring(
  first: Credentials,
  renewCredentials: RenewCredentials | undefined,
  crypto: WebCrypto | undefined,
): Keyring {
  let keys = makeKeys(first)
  let askedAt = Number.NEGATIVE_INFINITY
  /** The request without an answer yet. */
  let asking: Promise<void> | undefined

  function makeKeys({ apiKey, userSecret }: Credentials): Keys {
    return { apiKey, userSecret, sign: createLateSigner(apiKey, userSecret, crypto) }
  }

  async function ask(now: number, log: Log): Promise<void> {
    let given: unknown
    try {
      given = await renewCredentials?.()
    } catch {
      // The error may contain a secret.
      log.error?.('renewCredentials has failed: the keys stay as they are')
      return
    }
    // A late answer counts, unless there is a later request.
    if (askedAt === now) adopt(given, log)
  }

  function adopt(given: unknown, log: Log): void {
    try {
      const { apiKey, userSecret } = checkCredentials(given)
      if (apiKey === keys.apiKey && userSecret === keys.userSecret) return
      keys = makeKeys({ apiKey, userSecret })
      log.info?.('renewCredentials gave other keys: requests are signed with them')
    } catch (error) {
      const rule = isStreamsError(error, 'VALIDATION') ? error.message : "it can't be read"
      log.error?.(
        `renewCredentials gave unusable credentials, and the keys stay as they are: ${rule}`,
      )
    }
  }

  function clear(request: Promise<void>): void {
    if (asking === request) asking = undefined
  }

  /** Waits for the answer, but not for too long. */
  async function wait(request: Promise<void>, { signal, scope: { log } }: Call): Promise<void> {
    const life = createLifetime(signal)
    const left = askedAt + PATIENCE - performance.now()
    const tooLong = sleep(left, life.signal).then(() => {
      if (asking === request)
        log.error?.(`renewCredentials has not answered within ${PATIENCE / 1000} s`)
      clear(request)
    })
    try {
      await Promise.race([request, tooLong])
    } finally {
      life.end()
    }
  }

  return {
    get keys() {
      return keys
    },
    async renew(rejected, call) {
      // Another call has found other keys since then.
      if (renewCredentials === undefined || rejected !== keys) return
      const now = performance.now()
      if (now - askedAt >= (asking === undefined ? PAUSE : PATIENCE)) {
        askedAt = now
        const request = ask(now, call.scope.log).finally(() => clear(request))
        asking = request
      }
      if (asking !== undefined) await wait(asking, call)
    },
  }
}

/** Checks credentials; errors name the field and never quote its value. */
export function checkCredentials(given: unknown): Credentials {
  const { apiKey, userSecret } = (given ?? {}) as Partial<Credentials>
  return {
    apiKey: checkKey('apiKey', apiKey),
    userSecret: checkText('userSecret', userSecret),
  }
}

/** Checks the key, which becomes a header: one that a header can't hold must fail here, where no error quotes it. */
function checkKey(field: string, value: unknown): string {
  const key = checkText(field, value)
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new ValidationError(`${field} must be printable ASCII without spaces`)
  return key
}

/** A signer that is loaded with the first signature. */
function createLateSigner(...given: Parameters<typeof createSigner>): Signer {
  let signer: Signer | undefined

  async function load(): Promise<Signer> {
    const loaded = await import('./signer.js')
    signer ??= loaded.createSigner(...given)
    return signer
  }
  return (...request) =>
    signer === undefined ? load().then(sign => sign(...request)) : signer(...request)
}
