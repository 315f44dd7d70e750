import type { Call } from '../../client/contract/call.js'
import { sleep } from '../../core/async.js'
import { isStreamsError, ValidationError } from '../../core/errors.js'
import { lazy } from '../../core/lazy.js'
import { createLifetime } from '../../core/lifetime.js'
import type { Log } from '../../core/log.js'
import { checkText } from '../../core/options.js'
import type { WebCrypto } from '../../crypto/crypto.js'
import type { Signer } from './signer.js'

/** The key and secret that sign requests. */
export interface Credentials {
  /** The API key, sent as `Authorization`. */
  readonly apiKey: string
  /** The user secret, which keys the signature and is never sent. */
  readonly userSecret: string
}

/** Returns the credentials to use from now on. */
export type RenewCredentials = () => Credentials | Promise<Credentials>

/** Credentials, and a function that returns their signer. */
export interface Keys extends Credentials {
  readonly signer: () => Signer | Promise<Signer>
}

/** The code for signatures, which is loaded with the first signature. */
export const loadSigner: () => SignerModule | Promise<SignerModule> = lazy(
  () => import('./signer.js'),
)
type SignerModule = typeof import('./signer.js')

/**
 * The least milliseconds between two calls of `renewCredentials`: many calls may be rejected at the
 * same time.
 */
const PAUSE = 1000
/** The most milliseconds that a call waits for other keys. */
const PATIENCE = 10_000

/** The keys in use. Without `renewCredentials` they never change. */
export class Keyring {
  #keys: Keys
  readonly #renewCredentials: RenewCredentials | undefined
  readonly #crypto: WebCrypto | undefined
  #askedAt = Number.NEGATIVE_INFINITY
  /** Called when other keys are in use, also if nobody waits for them any more. */
  onChange: (() => void) | undefined
  /** The request for keys that is not answered yet. */
  #asking: Promise<void> | undefined

  constructor(first: Credentials, renewCredentials?: RenewCredentials, crypto?: WebCrypto) {
    this.#renewCredentials = renewCredentials
    this.#crypto = crypto
    this.#keys = this.#makeKeys(first)
  }

  get keys(): Keys {
    return this.#keys
  }

  /**
   * Requests other keys after these keys were rejected. Rejects if the call's signal aborts before
   * the answer.
   */
  async renew(rejected: Keys, call: Call): Promise<void> {
    // If these keys are no longer in use, another call has already found new keys.
    if (this.#renewCredentials === undefined || rejected !== this.#keys) return
    const now = performance.now()
    if (now - this.#askedAt >= (this.#asking === undefined ? PAUSE : PATIENCE)) {
      this.#askedAt = now
      const request = this.#ask(now, call.scope.log).finally(() => this.#clear(request))
      this.#asking = request
    }
    if (this.#asking !== undefined) await this.#wait(this.#asking, call)
  }

  #makeKeys({ apiKey, userSecret }: Credentials): Keys {
    const crypto = this.#crypto
    const signer = lazy(async () => {
      const { createSigner } = await loadSigner()
      return createSigner(apiKey, userSecret, crypto)
    })
    return { apiKey, userSecret, signer }
  }

  async #ask(now: number, log: Log): Promise<void> {
    let given: unknown
    try {
      given = await this.#renewCredentials?.()
    } catch {
      // The error may contain a secret.
      log.error?.('renewCredentials has failed: the keys stay as they are')
      return
    }
    // A late answer still counts, unless a newer request has been made.
    if (this.#askedAt === now) this.#adopt(given, log)
  }

  #adopt(given: unknown, log: Log): void {
    try {
      const found = checkCredentials(given)
      const { apiKey, userSecret } = this.#keys
      if (found.apiKey === apiKey && found.userSecret === userSecret) return
      this.#keys = this.#makeKeys(found)
      this.onChange?.()
      log.info?.('renewCredentials gave other keys: requests are signed with them')
    } catch (error) {
      const rule = isStreamsError(error, 'VALIDATION') ? error.message : "it can't be read"
      log.error?.(
        `renewCredentials gave unusable credentials, and the keys stay as they are: ${rule}`,
      )
    }
  }

  #clear(request: Promise<void>): void {
    if (this.#asking === request) this.#asking = undefined
  }

  /** Waits for the answer, at most until `PATIENCE` milliseconds after the request. */
  async #wait(request: Promise<void>, { signal, scope: { log } }: Call): Promise<void> {
    const life = createLifetime(signal)
    const left = this.#askedAt + PATIENCE - performance.now()
    const tooLong = sleep(left, life.signal).then(() => {
      if (this.#asking === request)
        log.error?.(`renewCredentials has not answered within ${PATIENCE / 1000} s`)
      this.#clear(request)
    })
    try {
      await Promise.race([request, tooLong])
    } finally {
      life.end()
    }
  }
}

/** Checks credentials. Errors name the field and never quote its value. */
function checkCredentials(given: unknown): Credentials {
  const { apiKey, userSecret } = (given ?? {}) as Partial<Credentials>
  return {
    apiKey: checkKey('apiKey', apiKey),
    userSecret: checkSecret('userSecret', userSecret),
  }
}

/**
 * Checks the API key, which becomes a header. A key that a header can't hold must be rejected here:
 * other errors might quote it.
 */
export function checkKey(field: string, value: unknown): string {
  const key = checkSecret(field, value)
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new ValidationError(`${field} must be printable ASCII without spaces`)
  return key
}

/**
 * Checks a credential for what comes along when it is copied from a file or a page. Each signature
 * would be wrong, and the service does not say why. The error names the character, and quotes
 * nothing else.
 */
export function checkSecret(field: string, value: unknown): string {
  const secret = checkText(field, value)
  const found = /^\s|\s$|(?! )[\p{C}\p{Z}\u115f\u1160\u3164\uffa0]/u.exec(secret)
  if (found !== null) {
    const [character] = found
    const code = character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')
    const name = names[character] ?? 'an invisible character'
    throw new ValidationError(
      `${field} must not contain ${name} (U+${code}), as it does at index ${found.index}`,
    )
  }
  if (/^(["'`]).*\1$/s.test(secret))
    throw new ValidationError(`${field} must not stand in quotation marks`)
  return secret
}

/** The characters that are most often copied along. */
const names: Readonly<Record<string, string>> = {
  ' ': 'a space at its beginning or end',
  '\n': 'a line break',
  '\r': 'a line break',
  '\t': 'a tab',
  '\u00a0': 'a no-break space',
  '\u200b': 'a zero-width space',
  '\ufeff': 'a byte order mark',
}

/** A moment by this machine's clock, and the correction for its signature. */
export interface Moment {
  /** The moment in Unix milliseconds, uncorrected. */
  readonly at: number
  /** Milliseconds to add to `at`. */
  readonly offset: number
  /** The confirmed offset of the clock at that moment. */
  readonly usual: number
  /** The same moment, in milliseconds of `performance.now`. */
  readonly since: number
}

/**
 * A clock that is off by no more than this many milliseconds is not corrected, since the service
 * accepts its signatures.
 */
const TOLERANCE = 2000
/**
 * The largest correction in milliseconds, so that a wrong `Date` can't obtain signatures for
 * distant times.
 */
const MAX_OFFSET = 86_400_000

/** This machine's clock, corrected by the service's clock if the two differ. */
export class ServiceClock {
  readonly #now: () => number
  #offset = 0

  constructor(now: () => number) {
    this.#now = now
  }

  read(): Moment {
    const at = Math.round(this.#now())
    if (!Number.isSafeInteger(at) || at < 0)
      throw new ValidationError('now must return Unix milliseconds')
    return { at, offset: this.#offset, usual: this.#offset, since: performance.now() }
  }

  /**
   * Returns the offset for the next attempt, after an attempt that was signed at this moment was
   * rejected. If another offset was confirmed since then, returns that offset. Otherwise returns
   * the offset that `serverTime` shows.
   */
  offsetAfter({ at, offset: used, usual, since }: Moment, serverTime: number | undefined): number {
    if (usual !== this.#offset) return this.#offset
    if (serverTime === undefined) return used
    // The header has whole seconds, so take the middle of the second.
    const time = serverTime + 500
    // The service answered between the signing and now. A service time in that interval shows no
    // difference between the clocks.
    const took = performance.now() - since
    if (time > at + used - TOLERANCE && time < at + used + took + TOLERANCE) return used
    const found = Math.round(time - at - took / 2)
    if (Math.abs(found) > MAX_OFFSET) return used
    return Math.abs(found) > TOLERANCE ? found : 0
  }

  /** Called when the service has accepted a signature with this offset. */
  confirm(right: number, log: Log): void {
    // Requests that are rejected at the same time find slightly different offsets.
    if (Math.abs(right - this.#offset) <= TOLERANCE) return
    this.#offset = right
    log.info?.(describe(right))
  }
}

function describe(offset: number): string {
  if (offset === 0)
    return "this machine's clock agrees with the service's again: requests are signed by it"
  const seconds = Math.round(Math.abs(offset) / 1000)
  return `this machine's clock is ${seconds} s ${offset > 0 ? 'behind' : 'ahead of'} the service's: requests are signed by the service's`
}
