import { asError, isStreamsError, readOptions } from 'sluice/core'
import { checkObject, HTTPError } from 'sluice/internal'
import { createErrorLimit } from '../errors.js'
import {
  checkHolderName,
  type Entitlements,
  entitlementsSchema,
  type Holder,
  holderOf,
} from './holders.js'

/** The holder that `authorize` has found for a token, and what the holder may do. */
export interface AuthorizedHolder extends Entitlements {
  /** The holder's name. Tokens of one name share its limits. It is in log lines. */
  readonly name: string
  /** When the token expires, such as `2027-01-31T00:00:00Z`. @default never */
  readonly expires?: string
}

/** Finds the holder of a token. Returns undefined if the token is not valid. */
export type Authorize = (
  token: string,
) => AuthorizedHolder | undefined | Promise<AuthorizedHolder | undefined>

/** For how many tokens the answer of `authorize` is remembered. */
const MAX_HOLDERS = 100_000
/** For how many tokens that are not valid this is remembered. */
const MAX_UNKNOWN = 10_000
/** Milliseconds for which it is remembered that a token is not valid. */
const UNKNOWN_LIFETIME = 5000
/** How many calls of `authorize` may run at once. */
const CALLS_AT_ONCE = 64
/** Milliseconds that `authorize` may take. */
const TIMEOUT = 5000
/**
 * Milliseconds for which open streams go on while `authorize` fails, from the end of its last
 * answer's lifetime.
 */
const STREAM_PATIENCE = 600_000

/** An answer of `authorize`. */
interface Answer {
  readonly holder: Holder | undefined
  /** Until when it counts, as `performance.now()`. */
  readonly until: number
}

const schema = { ...entitlementsSchema, name: checkHolderName }

/** Holders whose tokens a callback knows. The callback's answers are remembered for a time. */
export class AuthorizedHolders {
  readonly #authorize: Authorize
  readonly #lifetime: number
  readonly #error: (message: string) => void
  readonly #maySay = createErrorLimit()
  /**
   * By the digests of tokens, the oldest answer first. Invalid tokens can't displace valid ones.
   */
  readonly #holders = new Map<string, Answer>()
  readonly #unknown = new Map<string, Answer>()
  readonly #calls = new Map<string, Promise<Holder | undefined>>()

  /** `lifetime` is in milliseconds. */
  constructor(authorize: Authorize, lifetime: number, error: (message: string) => void) {
    this.#authorize = authorize
    this.#lifetime = lifetime
    this.#error = error
  }

  /** Finds the holder of a token. Throws HTTPError if the callback fails. */
  async find(digest: string, token: string): Promise<Holder | undefined> {
    const known = this.#known(digest)
    if (known !== undefined && known.until > performance.now()) return known.holder
    // Concurrent requests of one token share one call.
    return this.#calls.get(digest) ?? this.#call(digest, token)
  }

  /**
   * The newest answer for the holder of an open stream. If it is too old, the callback is called
   * again, and its answer counts the next time.
   */
  current(holder: Holder): Holder | undefined {
    const { digest, renew } = holder
    const known = this.#known(digest)
    const now = performance.now()
    if (known !== undefined && known.until > now) return known.holder
    // A failure was logged. The stream goes on meanwhile.
    if (!this.#calls.has(digest)) renew?.().catch(() => undefined)
    return known !== undefined && known.until + STREAM_PATIENCE < now ? undefined : holder
  }

  #known(digest: string): Answer | undefined {
    return this.#holders.get(digest) ?? this.#unknown.get(digest)
  }

  #call(digest: string, token: string): Promise<Holder | undefined> {
    if (this.#calls.size >= CALLS_AT_ONCE)
      return Promise.reject(unavailable('too many tokens are looked up at once'))
    const call = this.#ask(digest, token).finally(() => this.#calls.delete(digest))
    this.#calls.set(digest, call)
    return call
  }

  async #ask(digest: string, token: string): Promise<Holder | undefined> {
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer within ${TIMEOUT} ms`)), TIMEOUT)
    })
    try {
      const found = await Promise.race([Promise.resolve(token).then(this.#authorize), timeout])
      const holder = found === undefined ? undefined : this.#read(digest, token, found)
      this.#remember(digest, holder)
      return holder
    } catch (thrown) {
      // The message of another error could contain the token.
      const why = isStreamsError(thrown) ? thrown.message : asError(thrown).name
      if (this.#maySay('authorize')) this.#error(`authorize failed: ${why}`)
      throw unavailable('the token can’t be looked up now')
    } finally {
      clearTimeout(timer)
    }
  }

  #read(digest: string, token: string, found: AuthorizedHolder): Holder {
    const { name, ...entry } = readOptions(
      'authorize',
      checkObject('authorize', found as object),
      schema,
      'authorize: ',
    )
    return { ...holderOf(name, digest, entry), renew: () => this.find(digest, token) }
  }

  #remember(digest: string, holder: Holder | undefined): void {
    this.#holders.delete(digest)
    this.#unknown.delete(digest)
    const [answers, max, lifetime] =
      holder === undefined
        ? ([this.#unknown, MAX_UNKNOWN, UNKNOWN_LIFETIME] as const)
        : ([this.#holders, MAX_HOLDERS, this.#lifetime] as const)
    const [oldest] = answers.keys()
    if (answers.size >= max && oldest !== undefined) answers.delete(oldest)
    answers.set(digest, { holder, until: performance.now() + lifetime })
  }
}

function unavailable(message: string): HTTPError {
  return new HTTPError(503, message, undefined, { 'retry-after': '1' })
}
