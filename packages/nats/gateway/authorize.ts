import {
  abortable,
  asError,
  BoundedMap,
  isStreamsError,
  readOptions,
  withTimeout,
} from 'sluice/core'
import { Admission, type Asker, checkObject, HTTPError } from 'sluice/internal'
import { createErrorLimit } from '../errors.js'
import {
  type CheckedEntry,
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

/** A holder's name, and what the holder may do. */
export interface NamedEntry extends CheckedEntry {
  readonly name: string
}

/** A way to find the holders of tokens, which takes time. */
export interface HolderSource {
  /** The option that it comes from, for log lines. */
  readonly option: 'authorize' | 'jwt'
  /** For how many tokens its answer is remembered. */
  readonly maxHolders: number
  /** How many lookups run at once. */
  readonly lookupsAtOnce: number
  /** Finds the holder of a token; undefined if it is not valid. Throws if it can't say that now. */
  find(token: string): Promise<NamedEntry | undefined>
}

/** For how many tokens the answer of `authorize` is remembered. */
const MAX_HOLDERS = 100_000
/** For how many tokens that are not valid this is remembered. */
const MAX_UNKNOWN = 10_000
/** Milliseconds for which it is remembered that a token is not valid. */
const UNKNOWN_LIFETIME = 5000
/** How many calls of `authorize` run at once. */
const CALLS_AT_ONCE = 64
/** Milliseconds that a lookup may take. */
const TIMEOUT = 5000
/**
 * Milliseconds for which open streams go on while lookups fail, from the end of the last answer's
 * lifetime.
 */
const STREAM_PATIENCE = 600_000

const schema = { ...entitlementsSchema, name: checkHolderName }

/** The source of holders that a callback knows. */
export function authorizeSource(authorize: Authorize): HolderSource {
  return {
    option: 'authorize',
    maxHolders: MAX_HOLDERS,
    lookupsAtOnce: CALLS_AT_ONCE,
    async find(token) {
      const found = await authorize(token)
      if (found === undefined) return undefined
      const given = checkObject('authorize', found as object)
      return readOptions('authorize', given, schema, 'authorize: ')
    },
  }
}

/** An answer of a source. */
interface Answer {
  readonly holder: Holder | undefined
  /** Until when it counts, as `performance.now()`. */
  readonly until: number
}

/** The holders that a source finds. Its answers are remembered for a time. */
export class FoundHolders {
  readonly #source: HolderSource
  readonly #lifetime: number
  readonly #error: (message: string) => void
  readonly #maySay = createErrorLimit()
  /**
   * By the digests of tokens, the oldest answer first. Invalid tokens can't displace valid ones.
   */
  readonly #holders: BoundedMap<string, Answer>
  readonly #unknown = new BoundedMap<string, Answer>(MAX_UNKNOWN)
  readonly #lookups = new Map<string, Promise<Holder | undefined>>()
  /** Has those wait who bring tokens that nobody knows yet: one address after the other. */
  readonly #admission: Admission

  /** `lifetime` is in milliseconds. */
  constructor(source: HolderSource, lifetime: number, error: (message: string) => void) {
    this.#source = source
    this.#holders = new BoundedMap(source.maxHolders)
    this.#lifetime = lifetime
    this.#error = error
    this.#admission = new Admission(source.lookupsAtOnce, () =>
      unavailable('too many tokens are to be looked up'),
    )
  }

  /** Finds the holder of a token. Throws HTTPError if the source fails, or too many ask. */
  async find(digest: string, token: string, asker: Asker): Promise<Holder | undefined> {
    const known = this.#known(digest)
    if (known !== undefined && known.until > performance.now()) return known.holder
    // Concurrent requests of one token share one lookup.
    return this.#lookups.get(digest) ?? this.#lookUp(digest, token, asker)
  }

  /**
   * The newest answer for the holder of an open stream. If it is too old, the token is looked up
   * again, and the answer counts the next time.
   */
  #current(holder: Holder, token: string): Holder | undefined {
    const { digest } = holder
    const known = this.#known(digest)
    const now = performance.now()
    if (known !== undefined && known.until > now) return known.holder
    // A failure was logged. The stream goes on meanwhile.
    if (!this.#lookups.has(digest))
      this.#lookUp(digest, token, askerOf(holder.name)).catch(() => undefined)
    return known !== undefined && known.until + STREAM_PATIENCE < now ? undefined : holder
  }

  #known(digest: string): Answer | undefined {
    return this.#holders.get(digest) ?? this.#unknown.get(digest)
  }

  #lookUp(digest: string, token: string, asker: Asker): Promise<Holder | undefined> {
    const lookup = this.#askInTurn(digest, token, asker).finally(() => this.#lookups.delete(digest))
    this.#lookups.set(digest, lookup)
    return lookup
  }

  async #askInTurn(digest: string, token: string, asker: Asker): Promise<Holder | undefined> {
    const leave = await withTimeout(
      TIMEOUT,
      () => unavailable('too many tokens are looked up before this one'),
      signal => this.#admission.enter({ ...asker, signal }),
      asker.signal,
    )
    return this.#ask(digest, token).finally(leave)
  }

  async #ask(digest: string, token: string): Promise<Holder | undefined> {
    const { option } = this.#source
    const late = (): Error => new Error(`no answer within ${TIMEOUT} ms`)
    try {
      const found = await withTimeout(TIMEOUT, late, signal =>
        abortable(this.#source.find(token), signal),
      )
      const holder: Holder | undefined = found && {
        ...holderOf(found.name, digest, found),
        current: () => this.#current(holder as Holder, token),
      }
      this.#remember(digest, holder)
      return holder
    } catch (thrown) {
      // The message of another error could contain the token.
      const why = isStreamsError(thrown) ? thrown.message : asError(thrown).name
      if (this.#maySay(option)) this.#error(`${option} failed: ${why}`)
      throw unavailable('the token can’t be looked up now')
    }
  }

  #remember(digest: string, holder: Holder | undefined): void {
    this.#holders.delete(digest)
    this.#unknown.delete(digest)
    const [answers, lifetime] =
      holder === undefined
        ? ([this.#unknown, UNKNOWN_LIFETIME] as const)
        : ([this.#holders, this.#lifetime] as const)
    answers.set(digest, { holder, until: performance.now() + lifetime })
  }
}

/** Those who ask for the holder of an open stream. */
function askerOf(name: string): Asker {
  const { signal } = new AbortController()
  return { caller: () => name, address: '', isKnown: () => true, signal }
}

function unavailable(message: string): HTTPError {
  return new HTTPError(503, message, undefined, { 'retry-after': '1' })
}
