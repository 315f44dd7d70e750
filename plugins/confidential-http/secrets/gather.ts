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
  /** The index of the holder's share of the key, from 0. */
  readonly index: number
  /** The URL of the holder, if it is a separate process. */
  readonly url?: string
  /**
   * Makes the holder's decryption share of a secret. Returns it as JSON, sealed to the X25519
   * public key `recipient`.
   */
  release(name: SecretName, recipient: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>
}

/** The holders of a vault, the threshold, and the key that verifies the holders' shares. */
export interface VaultHolders {
  readonly publicKey: PublicKey
  readonly threshold: number
  readonly holders: readonly ShareHolder[]
}

/** A request for the shares of one secret. The holders seal the shares to `keys`. */
export interface ShareRequest {
  readonly name: SecretName
  readonly ciphertext: Ciphertext
  readonly keys: BoxKeys
  readonly signal?: AbortSignal
  readonly log?: Log
  /**
   * Shares that did not combine, so at least one of them may be wrong. If this is given, every
   * share is verified, and these shares are verified first.
   */
  readonly suspects?: readonly DecryptionShare[]
}

/**
 * When each holder last failed or was slow. The key is the holder's URL or, without a URL, its
 * index.
 */
export type FailureTimes = Map<string, number>

/** How long to wait for a holder before one more holder is asked, in milliseconds. */
export const HEDGE_AFTER = 250
/** How long all holders together may take, in milliseconds. */
const RELEASE_TIMEOUT = 5000
/** How long a holder that failed or was slow is asked after all others, in milliseconds. */
const AVOIDED_FOR = 10_000
/**
 * How often a holder process is asked again. Each pause is twice as long as the previous one, so
 * all pauses together take about 4 s.
 */
const MAX_AGAIN = 4
/** The pause before a holder process is asked again for the first time, in milliseconds. */
const FIRST_PAUSE = 250

/**
 * Collects `threshold` shares. Asks `threshold` holders at once. Asks one more holder for each
 * holder that fails, lies or is slow. Does not verify the shares, because the tag of the ciphertext
 * shows at no cost whether they are right. If the tag is wrong, gather again and pass the shares as
 * `suspects`. Then their proofs are verified, which finds the holders that lied.
 */
export function gatherShares(
  vault: VaultHolders,
  request: ShareRequest,
  failures: FailureTimes = new Map(),
): Promise<readonly DecryptionShare[]> {
  return new Gathering(vault, request, failures).run()
}

/**
 * Asks holders for their shares. Holders whose shares are suspects come first, and holders that
 * failed lately come last. A holder process that could not be reached, or lied, is asked again
 * after a pause, because it may be about to start. A holder that refuses is not asked again. The
 * log names the holders that failed, lied or were slow. If too few holders are left, the error
 * names them, too.
 */
class Gathering {
  readonly #vault: VaultHolders
  readonly #request: ShareRequest
  readonly #failures: FailureTimes
  readonly #shares = createDeferred<readonly DecryptionShare[]>()
  readonly #stop = new AbortController()
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()
  readonly #suspects: Map<number, DecryptionShare>
  /** The holders that were not asked yet, the next one first. */
  readonly #waiting: ShareHolder[]
  readonly #asked = new Set<ShareHolder>()
  readonly #slow = new Set<ShareHolder>()
  readonly #valid: DecryptionShare[] = []
  /** For each holder that gave no share, the reason. */
  readonly #reasons = new Map<ShareHolder, string>()
  readonly #refused = new Set<ShareHolder>()
  /** How often each holder was asked again. */
  readonly #again = new Map<ShareHolder, number>()
  /** How many holders are in a pause before they are asked again. */
  #pausing = 0
  /** Whether a holder reported that the vault was rolled back to an older state. */
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

  /**
   * Ends with an error or, if none is given, with the shares. Cancels the requests to all other
   * holders.
   */
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
   * Gets the share of one holder. Uses the holder's suspect share if there is one. Verifies the
   * share if suspects were given.
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
   * Marks a slow holder, so that other requests ask it after all others. Logs a warning, unless the
   * holder is marked already.
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
   * Asks another holder in place of a holder that failed or lied. If asking the failed holder again
   * may help, schedules that after a pause.
   */
  #replace(holder: ShareHolder, thrown: unknown): void {
    const { name, log } = this.#request
    const { holders, threshold } = this.#vault
    // Quotes only errors of this library, because messages of other libraries may contain a secret.
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

  /** Makes the error for too few good shares. It names each holder that gave no share. */
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
 * Tells whether a holder would fail again. This is true for a holder in the vault's own directory,
 * and for a holder process that has refused and given a reason.
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
