import type { Call } from '../../client/call.js'
import { isStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import { checkText } from '../../core/options.js'
import { sleep } from '../../core/sleep.js'
import type { WebCrypto } from '../../crypto/crypto.js'
import { createSigner, type Signer } from './signer.js'

/** What requests are signed with. */
export interface Credentials {
  /** The API key, sent as `Authorization`. */
  readonly apiKey: string
  /** The user secret, which keys the signature and is never sent. */
  readonly userSecret: string
}

/** Gives the credentials to go on with. */
export type RenewCredentials = () => Credentials | Promise<Credentials>

/** Credentials, and what signs with them. */
export interface Keys extends Credentials {
  readonly sign: Signer
}

/** The keys in use, and who is asked for others. */
export interface Keyring {
  readonly keys: Keys
  /** Sees whether there are others than these, which were refused. Rejects when the call's signal aborts meanwhile. */
  renew(refused: Keys, call: Call): Promise<void>
}

/** Milliseconds between two questions for other keys. */
const PAUSE = 1000
/** Milliseconds for which an answer is waited. */
const PATIENCE = 10_000

/** Begins with these keys; without `renewCredentials` they stay. */
export function createKeyring(
  first: Credentials,
  renewCredentials: RenewCredentials | undefined,
  crypto: WebCrypto | undefined,
): Keyring {
  let keys = makeKeys(first)
  let askedAt = Number.NEGATIVE_INFINITY
  /** The question that waits for its answer. */
  let asking: Promise<void> | undefined

  function makeKeys({ apiKey, userSecret }: Credentials): Keys {
    return { apiKey, userSecret, sign: createSigner(apiKey, userSecret, crypto) }
  }

  async function ask(now: number, log: Log): Promise<void> {
    let given: unknown
    try {
      given = await renewCredentials?.()
    } catch {
      // What was thrown may hold a secret.
      log.error?.('renewCredentials has failed: the keys stay as they are')
      return
    }
    // Late is good enough, unless it has been asked again.
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
      log.error?.(`what renewCredentials gave is no use, and the keys stay as they are: ${rule}`)
    }
  }

  function settle(question: Promise<void>): void {
    if (asking === question) asking = undefined
  }

  /** Waits for the answer, as long as there is patience. */
  async function wait(question: Promise<void>, { signal, scope: { log } }: Call): Promise<void> {
    const life = createLifetime(signal)
    const left = askedAt + PATIENCE - performance.now()
    const tooLong = sleep(left, life.signal).then(() => {
      if (asking === question)
        log.error?.(`renewCredentials has not answered within ${PATIENCE / 1000} s`)
      settle(question)
    })
    try {
      await Promise.race([question, tooLong])
    } finally {
      life.end()
    }
  }

  return {
    get keys() {
      return keys
    },
    async renew(refused, call) {
      // Others have been found since then.
      if (renewCredentials === undefined || refused !== keys) return
      const now = performance.now()
      if (now - askedAt >= (asking === undefined ? PAUSE : PATIENCE)) {
        askedAt = now
        const question = ask(now, call.scope.log).finally(() => settle(question))
        asking = question
      }
      if (asking !== undefined) await wait(asking, call)
    },
  }
}

/** Checks credentials; what is wrong with them is said by name, and not quoted. */
export function checkCredentials(given: unknown): Credentials {
  const { apiKey, userSecret } = (given ?? {}) as Partial<Credentials>
  return {
    apiKey: checkKey('apiKey', apiKey),
    userSecret: checkText('userSecret', userSecret),
  }
}

/** The key becomes a header, and what a header can't hold must fail here, where no error quotes it. */
function checkKey(field: string, value: unknown): string {
  const key = checkText(field, value)
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new ValidationError(`${field} must be printable ASCII without spaces`)
  return key
}
