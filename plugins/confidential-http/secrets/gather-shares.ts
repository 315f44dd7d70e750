import { type BoxKeys, openSealed } from '../../../crypto/sealed-box.js'
import {
  type DecryptionShare,
  parseDecryptionShare,
  verifyShare,
} from '../../../crypto/tdh2/index.js'
import { VaultError } from '../vault-error.js'
import {
  createHolderOrder,
  type FailureTimes,
  type Gathering,
  type ShareHolder,
  type ShareRequest,
} from './holder-order.js'

/** Asks one more holder when one of those asked has not answered for so long, in milliseconds. */
export const HEDGE_AFTER = 250
/** How long the holders may take together, in milliseconds. */
export const RELEASE_TIMEOUT = 5000

/**
 * Collects `threshold` shares. Asks so many holders at once; another one for each that fails or lies, and for each that is slow.
 * Whether the shares are right is for the tag of the ciphertext to say, which costs nothing: only if it is wrong, gather again
 * with the shares as `suspects`, which verifies their proofs and finds who lied.
 * A process that could not be reached, or lied, is asked again when no other is left: it may be about to start. One that refuses
 * is not.
 * Names the holders that failed, lied or were slow: in the log, and in the error if too few are left.
 */
export function gatherShares(
  gathering: Gathering,
  request: ShareRequest,
  failures: FailureTimes = new Map(),
): Promise<readonly DecryptionShare[]> {
  const { threshold } = gathering
  const { signal } = request
  return new Promise((resolve, reject) => {
    const stop = new AbortController()
    const suspects = new Map(request.suspects?.map(share => [share.index, share]))
    const order = createHolderOrder(gathering, request, failures)
    const timers = new Set<ReturnType<typeof setTimeout>>()
    const valid: DecryptionShare[] = []
    const asked = new Set<ShareHolder>()
    const slow = new Set<ShareHolder>()
    let pausing = 0

    function after(ms: number, action: () => void): ReturnType<typeof setTimeout> {
      const timer = setTimeout(action, ms)
      timers.add(timer)
      return timer
    }

    function end(): void {
      for (const timer of timers) clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      // Nobody waits for the others any more.
      stop.abort()
    }

    function fail(): void {
      end()
      reject(order.tooFew(valid.length))
    }

    function onAbort(): void {
      end()
      reject(signal?.reason)
    }

    function askNext(): void {
      const holder = order.next()
      if (holder === undefined) return
      asked.add(holder)
      const hedge = after(HEDGE_AFTER, () => {
        order.isSlow(holder, HEDGE_AFTER)
        slow.add(holder)
        askNext()
      })
      const suspect = suspects.get(holder.index)
      suspects.delete(holder.index)
      askHolder(holder, gathering, request, stop.signal, suspect)
        .finally(() => {
          clearTimeout(hedge)
          asked.delete(holder)
          slow.delete(holder)
        })
        .then(
          share => {
            if (stop.signal.aborted || valid.push(share) < threshold) return
            end()
            resolve(valid)
          },
          (thrown: unknown) => {
            if (!stop.signal.aborted) replace(holder, thrown)
          },
        )
    }

    function replace(holder: ShareHolder, thrown: unknown): void {
      const pause = order.fail(holder, thrown)
      if (pause !== undefined) {
        pausing++
        after(pause, () => {
          pausing--
          order.add(holder)
          if (asked.size - slow.size + valid.length < threshold) askNext()
        })
      }
      askNext()
      if (order.isHopeless() || (asked.size === 0 && pausing === 0)) fail()
    }

    if (signal?.aborted) return onAbort()
    signal?.addEventListener('abort', onAbort)
    after(RELEASE_TIMEOUT, () => {
      for (const holder of asked) order.isLate(holder)
      fail()
    })
    for (let at = 0; at < threshold; at++) askNext()
    if (asked.size === 0) fail()
  })
}

/** Gets the share of one holder, unless it has given one already, and verifies it where any is wrong. */
async function askHolder(
  holder: ShareHolder,
  { publicKey }: Gathering,
  { name, ciphertext, keys, suspects }: ShareRequest,
  signal: AbortSignal,
  given?: DecryptionShare,
): Promise<DecryptionShare> {
  const share = given ?? openShare(await holder.release(name, keys.publicKey, signal), keys)
  if (share.index !== holder.index)
    throw new VaultError(`its share is that of holder ${share.index}`, { isRetryable: true })
  if (suspects !== undefined) verifyShare(publicKey, ciphertext, share)
  return share
}

function openShare(sealed: Uint8Array, keys: BoxKeys): DecryptionShare {
  const opened = openSealed(sealed, keys)
  if (opened === undefined) throw new VaultError('its share does not open', { isRetryable: true })
  const share = parseDecryptionShare(new TextDecoder().decode(opened))
  opened.fill(0)
  return share
}
