// What guards a resharing, each of which can be taken out: the file, the expression, what stands in its place without the guard, and
// where the expression alone is in the file more than once, text around it that is there once.
type Place = readonly [file: string, text: string, without: string, around?: string]

const HOLDER = 'process/holder'
const RESHARING = 'process/holder-resharing'
const FILES = 'process/node-files'
const ORDER = 'process/order'
const REMOTE = 'process/remote-nodes'
const CHANGE = 'change-key'

export const GUARDS: Readonly<Record<string, Place>> = {
  // What a node is asked to do.
  steps: [ORDER, '!isSigned(textOfStep(step), signature, writer)', 'false'],
  orders: [ORDER, '!isSigned(text, signature, writer)', 'false'],
  'distinct receivers': [ORDER, 'new Set(receivers).size === receivers.length', 'true'],
  'least threshold': [RESHARING, 'order.threshold < minThreshold', 'false'],
  'least threshold raised': [FILES, 'threshold <= minThreshold', 'true'],
  peers: [RESHARING, 'key !== ownKey && !trust.peers.includes(key)', 'false'],
  inviter: [
    RESHARING,
    "openJSON('I', boxed, receiver, dealer)",
    "openJSON('I', boxed, boxed.subarray(32, 64), dealer)",
  ],
  'proof label': [RESHARING, 'Buffer.compare(ciphertext.label, PROOF_LABEL) !== 0', 'false'],
  generation: [RESHARING, 'order.generation !== known().generation', 'false'],
  'latest orders': [RESHARING, 'a.order.signedAt - b.order.signedAt', '0'],
  'one invitation': [RESHARING, 'invited.keys ??= boxKeys()', 'invited.keys = boxKeys()'],
  'same dealing': [RESHARING, 'done.dealt?.digest === digest', 'false'],
  'later attempts': [
    RESHARING,
    'accepted !== undefined && accepted.attempt >= attempt && accepted.digest !== digest',
    'false',
  ],
  // What a node stores and deletes.
  rollback: [HOLDER, "compare(manifest, next, 'the vault')", 'undefined'],
  settling: [HOLDER, '!isUnsettled', 'true'],
  'own share': [HOLDER, '(hasShare || index < 0)', 'true'],
  'pending kept': [HOLDER, 'generation !== manifest?.generation', 'true'],
  'pending of the key': [FILES, '(await readIfOf(file, publicKey, index)) === undefined', 'false'],
  'adopted of the key': [
    FILES,
    '(await readIfOf(adopted, publicKey, index)) !== undefined',
    'true',
  ],
  // What nodes have dealt.
  'dealing of the share': [
    'dealing',
    'checkReshareDealing(publicKey, dealing, threshold)',
    'undefined',
  ],
  'length of a new dealing': ['dealing', 'checkFreshDealing(dealing, threshold)', 'undefined'],
  'dealing of the dealer': ['dealing', 'dealing.dealer !== dealer', 'false'],
  'sub-share of the dealing': ['dealing', 'checkSubShare(dealing, subShare)', 'undefined'],
  'sub-share of the holder': ['dealing', 'subShare.index !== index', 'false'],
  'sub-share for all': ['resharing', 'sealed.sealed.length !== invitations.length', 'false'],
  'invitation of all': [REMOTE, 'invitations.length !== dealerKeys.length', 'false'],
  // What the writer believes.
  proof: ['resharing', 'named(each.shown, () => each.prove(next))', 'undefined'],
  'proof of the index': [REMOTE, 'share.index !== index', 'false'],
  'proof of the key': [
    REMOTE,
    'verifyShare(publicKey, parseCiphertext(publicKey, ciphertext), share)',
    'undefined',
  ],
  refusal: [CHANGE, 'without.length > 0', 'false'],
  'all told': [CHANGE, 'late.length > 0', 'false'],
  'base known': [CHANGE, 'unreached.length > 0', 'false'],
  'settled before': [CHANGE, 'now.isUnsettled === true || now.dropped !== undefined', 'false'],
  'same base': [CHANGE, 'now.generation !== base.generation', 'false'],
  'taken back once': [
    CHANGE,
    'now.generation !== generation',
    'false',
    'if (now.generation !== generation) return {}',
  ],
  'settled once': [
    CHANGE,
    'now.generation === generation',
    'true',
    "now.generation === generation\n      ? { act: { type: 'settle' }",
  ],
}

export const GUARDED_FILES: readonly string[] = [
  ...new Set(Object.values(GUARDS).map(([file]) => file)),
]

/** Guards without which few worlds break a rule: the long form alone looks for these. */
export const RARE: ReadonlySet<string> = new Set([
  'orders',
  'distinct receivers',
  'peers',
  'taken back once',
  'dealing of the share',
  'length of a new dealing',
  'proof of the index',
  'proof of the key',
])

/** Guards without which no world has broken a rule yet, of some hundreds: another stands behind each, or the model is too weak. */
export const UNSHOWN: ReadonlySet<string> = new Set([
  'least threshold raised',
  'latest orders',
  'later attempts',
  'own share',
  'dealing of the dealer',
  'sub-share of the dealing',
  'all told',
  'base known',
  'settled before',
  'same base',
  'settled once',
])
