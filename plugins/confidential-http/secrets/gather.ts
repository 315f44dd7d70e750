import { createDeferred, onAbort } from '../../../core/async.js'
import { asError, isStreamsError } from '../../../core/errors.js'
import type { Log } from '../../../core/log.js'
import { type BoxKeys, openSealed } from '../../../crypto/sealed-box.js'
import {
  type Ciphertext,
  type DecryptionShare,
  type PublicKey,
  parseDecryptionShare,
  verifyShare,
} from '../../../crypto/tdh2/index.js'
import { VaultError } from '../errors.js'
import type { SecretName } from '../secret.js'

/** One holder of the vault. */
export interface ShareHolder {
  /** Which share of the key the holder has, from 0. */
  readonly index: number
  /** The URL of a holder that is a process of its own. */
  readonly url?: string
  /** The holder's decryption share of a secret, as JSON sealed to an X25519 public key. */
  release(name: SecretName, recipient: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>
}

/** The holders to ask, and the key that verifies their shares. */
export interface VaultHolders {
  readonly publicKey: PublicKey
  readonly threshold: number
  readonly holders: readonly ShareHolder[]
}

/** The secret whose shares are gathered, and the keys that the shares are sealed to. */
export interface ShareRequest {
  readonly name: SecretName
  readonly ciphertext: Ciphertext
  readonly keys: BoxKeys
  readonly signal?: AbortSignal
  readonly log?: Log
  /**
   * Shares that did not combine, so that one of them is wrong: these are verified first, and all
   * others too.
   */
  readonly suspects?: readonly DecryptionShare[]
}

/** When each holder, by its URL or its index, last failed or was slow. */
export type FailureTimes = Map<string, number>

/** One more holder is asked when a holder has not answered for so long, in milliseconds. */
export const HEDGE_AFTER = 250
/** How long the holders may take together, in milliseconds. */
const RELEASE_TIMEOUT = 5000
/** A holder that failed, or was slow, is asked after the others for so long, in milliseconds. */
const AVOIDED_FOR = 10_000
/** So often a process is asked again, each time after a pause twice as long: 4 s in all. */
const MAX_AGAIN = 4
/** The first of these pauses, in milliseconds. */
const FIRST_PAUSE = 250

/**
 * Collects `threshold` shares. Asks so many holders at once; another one for each that fails or
 * lies, and for each that is slow. Whether the shares are right is for the tag of the ciphertext to
 * say, which costs nothing: only if it is wrong, gather again with the shares as `suspects`, which
 * verifies their proofs and finds who lied.
 */
export function gatherShares(
  vault: VaultHolders,
  request: ShareRequest,
  failures: FailureTimes = new Map(),
): Promise<readonly DecryptionShare[]> {
  return new Gathering(vault, request, failures).run()
}

/**
 * Asks holders for their shares: first those whose shares are suspects, last those that failed
 * lately. A process that could not be reached, or lied, is asked again when no other is left: it
 * may be about to start. One that refuses is not. Names the holders that failed, lied or were slow:
 * in the log, and in the error if too few are left.
 */
class Gathering {
  readonly #vault: VaultHolders
  readonly #request: ShareRequest
  readonly #failures: FailureTimes
  readonly #shares = createDeferred<readonly DecryptionShare[]>()
  readonly #stop = new AbortController()
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()
  readonly #suspects: Map<number, DecryptionShare>
  /** The holders to ask, the next one first. */
  readonly #waiting: ShareHolder[]
  readonly #asked = new Set<ShareHolder>()
  readonly #slow = new Set<ShareHolder>()
  readonly #valid: DecryptionShare[] = []
  /** Why a holder gave no share. */
  readonly #reasons = new Map<ShareHolder, string>()
  readonly #refused = new Set<ShareHolder>()
  /** How often a holder was asked again. */
  readonly #again = new Map<ShareHolder, number>()
  /** How many holders are asked again after a pause. */
  #pausing = 0
  /** A holder says that the vault was put back to an older state. */
  #isRollback = false

  constructor(vault: VaultHolders, request: ShareRequest, failures: FailureTimes) {
    this.#vault = vault
    this.#request = request
    this.#failures = failures
    this.#suspects = new Map(request.suspects?.map(share => [share.index, share]))
    const rank = (holder: ShareHolder): number =>
      this.#suspects.has(holder.index) ? -1 : Number(this.#isAvoided(holder))
    this.#waiting = [...vault.holders].sort((one, other) => rank(one) - rank(other))
  }

  run(): Promise<readonly DecryptionShare[]> {
    const { signal } = this.#request
    const abort = (): void => this.#end(signal?.reason as Error)
    if (signal?.aborted) abort()
    else {
      this.#after(RELEASE_TIMEOUT, () => {
        for (const holder of this.#asked) this.#reasons.set(holder, 'it did not answer in time')
        this.#end(this.#tooFew())
      })
      for (let at = 0; at < this.#vault.threshold; at++) this.#askNext()
      if (this.#asked.size === 0) this.#end(this.#tooFew())
    }
    const forget = signal && onAbort(signal, abort)
    return this.#shares.promise.finally(forget)
  }

  #after(ms: number, action: () => void): ReturnType<typeof setTimeout> {
    const timer = setTimeout(action, ms)
    this.#timers.add(timer)
    return timer
  }

  /** Ends with an error, or with the shares. Nobody waits for the other holders any more. */
  #end(error?: Error): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#stop.abort()
    if (error === undefined) this.#shares.resolve(this.#valid)
    else this.#shares.reject(error)
  }

  #askNext(): void {
    const holder = this.#waiting.shift()
    if (holder === undefined) return
    this.#asked.add(holder)
    const hedge = this.#after(HEDGE_AFTER, () => {
      this.#noteSlow(holder)
      this.#askNext()
    })
    this.#ask(holder)
      .finally(() => {
        clearTimeout(hedge)
        this.#asked.delete(holder)
        this.#slow.delete(holder)
      })
      .then(
        share => {
          if (this.#stop.signal.aborted) return
          if (this.#valid.push(share) === this.#vault.threshold) this.#end()
        },
        (thrown: unknown) => {
          if (!this.#stop.signal.aborted) this.#replace(holder, thrown)
        },
      )
  }

  /**
   * Gets the share of one holder, unless it has given one already, and verifies it where any is
   * wrong.
   */
  async #ask(holder: ShareHolder): Promise<DecryptionShare> {
    const { name, keys, ciphertext, suspects } = this.#request
    const given = this.#suspects.get(holder.index)
    this.#suspects.delete(holder.index)
    const share =
      given ?? openShare(await holder.release(name, keys.publicKey, this.#stop.signal), keys)
    if (share.index !== holder.index)
      throw new VaultError(`its share is that of holder ${share.index}`, { isRetryable: true })
    if (suspects !== undefined) verifyShare(this.#vault.publicKey, ciphertext, share)
    return share
  }

  /**
   * Has other requests ask a slow holder after the others, and logs it: once for as long as they
   * do.
   */
  #noteSlow(holder: ShareHolder): void {
    this.#slow.add(holder)
    if (this.#isAvoided(holder)) return
    this.#avoid(holder)
    this.#request.log?.warn?.(
      `${shownHolder(holder)} has given no share in ${HEDGE_AFTER} ms, and is asked last from now on`,
      { holder: holder.index },
    )
  }

  /**
   * Asks another holder in place of one that failed or lied, and that one again after a pause if
   * that may help.
   */
  #replace(holder: ShareHolder, thrown: unknown): void {
    const { name, log } = this.#request
    const { holders, threshold } = this.#vault
    // Quotes errors of this library only: messages of others may hold a secret.
    const why = isStreamsError(thrown) ? thrown.message : `it failed with ${asError(thrown).name}`
    if (this.#reasons.get(holder) !== why)
      log?.warn?.(`${shownHolder(holder)} gave no share of secret ${name.key}: ${why}`, {
        holder: holder.index,
      })
    this.#reasons.set(holder, why)
    this.#avoid(holder)
    this.#isRollback ||= isStreamsError(thrown, 'ROLLBACK')
    const again = this.#again.get(holder) ?? 0
    if (refuses(holder, thrown)) this.#refused.add(holder)
    else if (again < MAX_AGAIN) {
      this.#again.set(holder, again + 1)
      this.#pausing++
      this.#after(FIRST_PAUSE * 2 ** again, () => {
        this.#pausing--
        this.#waiting.push(holder)
        if (this.#asked.size - this.#slow.size + this.#valid.length < threshold) this.#askNext()
      })
    }
    this.#askNext()
    const isHopeless = holders.length - this.#refused.size < threshold
    if (isHopeless || (this.#asked.size === 0 && this.#pausing === 0)) this.#end(this.#tooFew())
  }

  /** The error for too few good shares, which names each holder that gave none. */
  #tooFew(): VaultError {
    const reasons = [...this.#reasons]
      .sort(([one], [other]) => one.index - other.index)
      .map(([holder, why]) => `${shownHolder(holder)}: ${why}`)
    const rule = `secret ${this.#request.name.key}: ${this.#valid.length} of the ${this.#vault.threshold} shares it takes are good`
    const facts = this.#isRollback ? ({ code: 'ROLLBACK' } as const) : {}
    return new VaultError([rule, ...reasons].join('\n  '), facts)
  }

  #avoid(holder: ShareHolder): void {
    this.#failures.set(keyOf(holder), Date.now())
  }

  #isAvoided(holder: ShareHolder): boolean {
    return (this.#failures.get(keyOf(holder)) ?? 0) > Date.now() - AVOIDED_FOR
  }
}

/**
 * True where a holder will fail again: one of the vault's own directory, and a process that says
 * why it releases nothing.
 */
function refuses({ url }: ShareHolder, thrown: unknown): boolean {
  return url === undefined || (thrown instanceof VaultError && !thrown.isRetryable)
}

function openShare(sealed: Uint8Array, keys: BoxKeys): DecryptionShare {
  const opened = openSealed(sealed, keys)
  if (opened === undefined) throw new VaultError('its share does not open', { isRetryable: true })
  const share = parseDecryptionShare(new TextDecoder().decode(opened))
  opened.fill(0)
  return share
}

function keyOf({ index, url }: ShareHolder): string {
  return url ?? String(index)
}

function shownHolder({ index, url }: ShareHolder): string {
  return url === undefined ? `holder ${index}` : `holder ${index} at ${url}`
}
