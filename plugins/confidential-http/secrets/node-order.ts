import { asError, isStreamsError } from '../../../core/errors.js'
import type { Log } from '../../../core/log.js'
import type { BoxKeys } from '../../../crypto/sealed-box.js'
import type { Ciphertext, DecryptionShare, PublicKey } from '../../../crypto/tdh2/index.js'
import type { SecretName } from '../secret-name.js'
import { VaultError } from '../vault-error.js'

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

/** A node that failed, or was slow, is asked after the others for so long, in milliseconds. */
const AVOIDED_FOR = 10_000
/** So often a process is asked again, each time after a pause twice as long: 4 s in all. */
const MAX_AGAIN = 4
/** The first of these pauses, in milliseconds. */
const FIRST_PAUSE = 250

/** When each node, by its URL or its index, last failed or was slow. */
export type FailureTimes = Map<string, number>

/** Which node is asked next, and what became of those that were. */
interface NodeOrder {
  /** The next node; undefined where none is left. */
  next(): SecretNode | undefined
  /** Puts a node to the end again. */
  add(node: SecretNode): void
  /** Has other requests ask a node that is slow after the others, and logs it: once for as long as they do. */
  isSlow(node: SecretNode, after: number): void
  /** Names a node that failed or lied. Returns after which pause it is worth asking again, in milliseconds. */
  fail(node: SecretNode, thrown: unknown): number | undefined
  /** Notes that a node has not answered in time. */
  isLate(node: SecretNode): void
  /** True where so many nodes refuse that the others are too few. */
  isHopeless(): boolean
  /** The error for too few good shares, which names each node that gave none. */
  tooFew(good: number): VaultError
}

/** Puts the nodes in order: first those whose shares are suspects, last those that failed of late. */
export function createNodeOrder(
  { nodes, threshold }: Gathering,
  { name, suspects = [], log = {} }: ShareRequest,
  failures: FailureTimes,
): NodeOrder {
  const isSuspect = ({ index }: SecretNode): boolean => suspects.some(each => each.index === index)
  const waiting = inOrder(nodes, failures).sort(
    (one, other) => Number(isSuspect(other)) - Number(isSuspect(one)),
  )
  const failed = new Map<SecretNode, string>()
  const again = new Map<SecretNode, number>()
  const refused = new Set<SecretNode>()
  /** A node says that the vault was put back to an older state. */
  let isRollback = false
  const avoid = (node: SecretNode): void => void failures.set(keyOf(node), Date.now())

  return {
    next: () => waiting.shift(),
    add: node => void waiting.push(node),
    isSlow(node, after) {
      if (isAvoided(node, failures)) return
      log.warn?.(
        `${shownNode(node)} has given no share in ${after} ms, and is asked last from now on`,
        {
          node: node.index,
        },
      )
      avoid(node)
    },
    fail(node, thrown) {
      const why = reasonOf(thrown)
      const text = `${shownNode(node)} gave no share of secret ${name.key}: ${why}`
      if (failed.get(node) !== why) log.warn?.(text, { node: node.index })
      failed.set(node, why)
      avoid(node)
      isRollback ||= isStreamsError(thrown, 'ROLLBACK')
      if (refuses(node, thrown)) refused.add(node)
      const times = again.get(node) ?? 0
      if (refused.has(node) || times === MAX_AGAIN) return undefined
      again.set(node, times + 1)
      return FIRST_PAUSE * 2 ** times
    },
    isLate: node => void failed.set(node, 'it did not answer in time'),
    isHopeless: () => nodes.length - refused.size < threshold,
    tooFew(good) {
      const reasons = [...failed]
        .sort(([one], [other]) => one.index - other.index)
        .map(([node, why]) => `${shownNode(node)}: ${why}`)
      const rule = `secret ${name.key}: ${good} of the ${threshold} shares it takes are good`
      return new VaultError([rule, ...reasons].join('\n  '), isRollback ? { code: 'ROLLBACK' } : {})
    },
  }
}

/** True where a node will fail again: one of the vault's own directory, and a process that says why it releases nothing. */
function refuses({ url }: SecretNode, thrown: unknown): boolean {
  return url === undefined || (thrown instanceof VaultError && !thrown.isRetryable)
}

/** Nodes that failed of late come last. */
function inOrder(nodes: readonly SecretNode[], failures: FailureTimes): SecretNode[] {
  const avoided = nodes.filter(each => isAvoided(each, failures))
  return [...nodes.filter(each => !avoided.includes(each)), ...avoided]
}

function isAvoided(node: SecretNode, failures: FailureTimes): boolean {
  return (failures.get(keyOf(node)) ?? 0) > Date.now() - AVOIDED_FOR
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
