import { asError, isStreamsError } from '../../../core/errors.js'
import type { Log } from '../../../core/log.js'
import type { BoxKeys } from '../../../crypto/sealed-box.js'
import type { Ciphertext, DecryptionShare, PublicKey } from '../../../crypto/tdh2/index.js'
import type { SecretName } from '../secret-name.js'
import { VaultError } from '../vault-error.js'

/** One holder of the vault. */
export interface ShareHolder {
  /** Which share of the key the holder holds, from 0. */
  readonly index: number
  /** The URL of a holder that is a process of its own. */
  readonly url?: string
  /** The holder's decryption share of a secret, as JSON sealed to an X25519 public key. */
  release(name: SecretName, recipient: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>
}

/** The holders to ask, and what verifies what they say. */
export interface Gathering {
  readonly publicKey: PublicKey
  readonly threshold: number
  readonly holders: readonly ShareHolder[]
}

/** What is gathered shares of, and who gets them. */
export interface ShareRequest {
  readonly name: SecretName
  readonly ciphertext: Ciphertext
  readonly keys: BoxKeys
  readonly signal?: AbortSignal
  readonly log?: Log
  /** Shares that did not combine, so that some of them is wrong: these are verified first, and all others too. */
  readonly suspects?: readonly DecryptionShare[]
}

/** A holder that failed, or was slow, is asked after the others for so long, in milliseconds. */
const AVOIDED_FOR = 10_000
/** So often a process is asked again, each time after a pause twice as long: 4 s in all. */
const MAX_AGAIN = 4
/** The first of these pauses, in milliseconds. */
const FIRST_PAUSE = 250

/** When each holder, by its URL or its index, last failed or was slow. */
export type FailureTimes = Map<string, number>

/** Which holder is asked next, and what became of those that were. */
interface HolderOrder {
  /** The next holder; undefined where none is left. */
  next(): ShareHolder | undefined
  /** Puts a holder to the end again. */
  add(holder: ShareHolder): void
  /** Has other requests ask a holder that is slow after the others, and logs it: once for as long as they do. */
  isSlow(holder: ShareHolder, after: number): void
  /** Names a holder that failed or lied. Returns after which pause it is worth asking again, in milliseconds. */
  fail(holder: ShareHolder, thrown: unknown): number | undefined
  /** Notes that a holder has not answered in time. */
  isLate(holder: ShareHolder): void
  /** True where so many holders refuse that the others are too few. */
  isHopeless(): boolean
  /** The error for too few good shares, which names each holder that gave none. */
  tooFew(good: number): VaultError
}

/** Puts the holders in order: first those whose shares are suspects, last those that failed of late. */
export function createHolderOrder(
  { holders, threshold }: Gathering,
  { name, suspects = [], log = {} }: ShareRequest,
  failures: FailureTimes,
): HolderOrder {
  const isSuspect = ({ index }: ShareHolder): boolean => suspects.some(each => each.index === index)
  const waiting = inOrder(holders, failures).sort(
    (one, other) => Number(isSuspect(other)) - Number(isSuspect(one)),
  )
  const failed = new Map<ShareHolder, string>()
  const again = new Map<ShareHolder, number>()
  const refused = new Set<ShareHolder>()
  /** A holder says that the vault was put back to an older state. */
  let isRollback = false
  const avoid = (holder: ShareHolder): void => void failures.set(keyOf(holder), Date.now())

  return {
    next: () => waiting.shift(),
    add: holder => void waiting.push(holder),
    isSlow(holder, after) {
      if (isAvoided(holder, failures)) return
      log.warn?.(
        `${shownHolder(holder)} has given no share in ${after} ms, and is asked last from now on`,
        {
          holder: holder.index,
        },
      )
      avoid(holder)
    },
    fail(holder, thrown) {
      const why = reasonOf(thrown)
      const text = `${shownHolder(holder)} gave no share of secret ${name.key}: ${why}`
      if (failed.get(holder) !== why) log.warn?.(text, { holder: holder.index })
      failed.set(holder, why)
      avoid(holder)
      isRollback ||= isStreamsError(thrown, 'ROLLBACK')
      if (refuses(holder, thrown)) refused.add(holder)
      const times = again.get(holder) ?? 0
      if (refused.has(holder) || times === MAX_AGAIN) return undefined
      again.set(holder, times + 1)
      return FIRST_PAUSE * 2 ** times
    },
    isLate: holder => void failed.set(holder, 'it did not answer in time'),
    isHopeless: () => holders.length - refused.size < threshold,
    tooFew(good) {
      const reasons = [...failed]
        .sort(([one], [other]) => one.index - other.index)
        .map(([holder, why]) => `${shownHolder(holder)}: ${why}`)
      const rule = `secret ${name.key}: ${good} of the ${threshold} shares it takes are good`
      return new VaultError([rule, ...reasons].join('\n  '), isRollback ? { code: 'ROLLBACK' } : {})
    },
  }
}

/** True where a holder will fail again: one of the vault's own directory, and a process that says why it releases nothing. */
function refuses({ url }: ShareHolder, thrown: unknown): boolean {
  return url === undefined || (thrown instanceof VaultError && !thrown.isRetryable)
}

/** Holders that failed of late come last. */
function inOrder(holders: readonly ShareHolder[], failures: FailureTimes): ShareHolder[] {
  const avoided = holders.filter(each => isAvoided(each, failures))
  return [...holders.filter(each => !avoided.includes(each)), ...avoided]
}

function isAvoided(holder: ShareHolder, failures: FailureTimes): boolean {
  return (failures.get(keyOf(holder)) ?? 0) > Date.now() - AVOIDED_FOR
}

function keyOf({ index, url }: ShareHolder): string {
  return url ?? String(index)
}

function shownHolder({ index, url }: ShareHolder): string {
  return url === undefined ? `holder ${index}` : `holder ${index} at ${url}`
}

/** Quotes errors of this library only: messages of others may hold a secret. */
function reasonOf(thrown: unknown): string {
  return isStreamsError(thrown) ? thrown.message : `it failed with ${asError(thrown).name}`
}
