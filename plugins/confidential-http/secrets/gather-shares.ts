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
import { VaultError } from '../../../local/vault/errors.js'
import type { SecretName } from '../../../local/vault/secret-name.js'

/** One node of the vault. */
export interface SecretNode {
  /** Which share of the key the node holds, from 0. */
  readonly index: number
  /** The URL of a node that is a process of its own. */
  readonly url?: string
  /** The node's decryption share of a secret, as JSON sealed to an X25519 public key. */
  release(name: SecretName, recipient: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>
}

/** The nodes to ask, and what verifies what they say. */
export interface Gathering {
  readonly publicKey: PublicKey
  readonly threshold: number
  readonly nodes: readonly SecretNode[]
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

/** Asks one more node when one of those asked has not answered for so long, in milliseconds. */
export const HEDGE_AFTER = 250
/** How long the nodes may take together, in milliseconds. */
export const RELEASE_TIMEOUT = 5000
/** A node that failed, or was slow, is asked after the others for so long, in milliseconds. */
const AVOIDED_FOR = 10_000
/** So often a process is asked again, each time after twice as long: the last time before RELEASE_TIMEOUT. */
const MAX_AGAIN = 4

/** When each node, by its URL or its index, last failed or was slow. */
export type FailureTimes = Map<string, number>

/**
 * Collects `threshold` shares. Asks so many nodes at once; another one for each that fails or lies, and for each that is slow.
 * Whether the shares are right is for the tag of the ciphertext to say, which costs nothing: only if it is wrong, gather again
 * with the shares as `suspects`, which verifies their proofs and finds who lied.
 * A process that could not be reached, or lied, is asked again when no other is left: it may be about to start. One that refuses
 * is not.
 * Names the nodes that failed or lied: in the log, and in the error if too few are left.
 */
export function gatherShares(
  gathering: Gathering,
  request: ShareRequest,
  failures: FailureTimes = new Map(),
): Promise<readonly DecryptionShare[]> {
  const { threshold, nodes } = gathering
  const { name, signal, log = {} } = request
  return new Promise((resolve, reject) => {
    const stop = new AbortController()
    const suspects = new Map(request.suspects?.map(share => [share.index, share]))
    const waiting = inOrder(nodes, failures).sort(
      (one, other) => Number(suspects.has(other.index)) - Number(suspects.has(one.index)),
    )
    const timers = new Set<ReturnType<typeof setTimeout>>()
    const valid: DecryptionShare[] = []
    const failed = new Map<SecretNode, string>()
    const late = new Set<SecretNode>()
    const slow = new Set<SecretNode>()
    const again = new Map<SecretNode, number>()
    let refused = 0
    let asked = 0
    let pausing = 0

    function end(): void {
      for (const timer of timers) clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      // Nobody waits for the others any more.
      stop.abort()
    }

    function fail(): void {
      end()
      reject(tooFew(name, valid.length, threshold, failed))
    }

    function onAbort(): void {
      end()
      reject(signal?.reason)
    }

    function askAgain(node: SecretNode): void {
      const times = again.get(node) ?? 0
      if (times === MAX_AGAIN) return
      again.set(node, times + 1)
      pausing++
      const timer = setTimeout(
        () => {
          pausing--
          waiting.push(node)
          if (asked - slow.size + valid.length < threshold) askNext()
        },
        HEDGE_AFTER * 2 ** times,
      )
      timers.add(timer)
    }

    function askNext(): void {
      const node = waiting.shift()
      if (node === undefined) return
      asked++
      late.add(node)
      const timer = setTimeout(() => {
        failures.set(keyOf(node), Date.now())
        slow.add(node)
        askNext()
      }, HEDGE_AFTER)
      timers.add(timer)
      const suspect = suspects.get(node.index)
      suspects.delete(node.index)
      askNode(node, gathering, request, stop.signal, suspect)
        .finally(() => {
          asked--
          clearTimeout(timer)
          late.delete(node)
          slow.delete(node)
        })
        .then(
          share => {
            if (stop.signal.aborted || valid.push(share) < threshold) return
            end()
            resolve(valid)
          },
          (thrown: unknown) => {
            if (stop.signal.aborted) return
            const why = reasonOf(thrown)
            const text = `${shownNode(node)} gave no share of secret ${name.key}: ${why}`
            if (failed.get(node) !== why) log.warn?.(text, { node: node.index })
            failed.set(node, why)
            failures.set(keyOf(node), Date.now())
            if (refuses(node, thrown)) refused++
            else askAgain(node)
            askNext()
            const isHopeless = nodes.length - refused < threshold
            if (isHopeless || (asked === 0 && pausing === 0)) fail()
          },
        )
    }

    if (signal?.aborted) return onAbort()
    signal?.addEventListener('abort', onAbort)
    const giveUp = setTimeout(() => {
      for (const node of late) failed.set(node, 'it did not answer in time')
      fail()
    }, RELEASE_TIMEOUT)
    timers.add(giveUp)
    for (let at = 0; at < threshold; at++) askNext()
    if (asked === 0) fail()
  })
}

/** The error for too few good shares, which names each node that gave none. */
function tooFew(
  { key }: SecretName,
  good: number,
  threshold: number,
  failed: ReadonlyMap<SecretNode, string>,
): VaultError {
  const reasons = [...failed]
    .sort(([one], [other]) => one.index - other.index)
    .map(([node, why]) => `${shownNode(node)}: ${why}`)
  const rule = `secret ${key}: ${good} of the ${threshold} shares it takes are good`
  return new VaultError([rule, ...reasons].join('\n  '))
}

/** Gets the share of one node, unless it has given one already, and verifies it where any is wrong. */
async function askNode(
  node: SecretNode,
  { publicKey }: Gathering,
  { name, ciphertext, keys, suspects }: ShareRequest,
  signal: AbortSignal,
  given?: DecryptionShare,
): Promise<DecryptionShare> {
  const share = given ?? openShare(await node.release(name, keys.publicKey, signal), keys)
  if (share.index !== node.index)
    throw new VaultError(`its share is that of node ${share.index}`, { isRetryable: true })
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

/** True where a node will fail again: one of the vault's own directory, and a process that says why it releases nothing. */
function refuses({ url }: SecretNode, thrown: unknown): boolean {
  return url === undefined || (thrown instanceof VaultError && !thrown.isRetryable)
}

/** Nodes that failed of late come last. */
function inOrder(nodes: readonly SecretNode[], failures: FailureTimes): SecretNode[] {
  const since = Date.now() - AVOIDED_FOR
  const isAvoided = (node: SecretNode): boolean => (failures.get(keyOf(node)) ?? 0) > since
  return [...nodes.filter(each => !isAvoided(each)), ...nodes.filter(isAvoided)]
}

function keyOf({ index, url }: SecretNode): string {
  return url ?? String(index)
}

function shownNode({ index, url }: SecretNode): string {
  return url === undefined ? `node ${index}` : `node ${index} at ${url}`
}

/** Quotes errors of this library only: messages of others may hold a secret. */
function reasonOf(thrown: unknown): string {
  return isStreamsError(thrown) ? thrown.message : `it failed with ${asError(thrown).name}`
}
