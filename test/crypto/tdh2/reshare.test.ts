import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { G, isSamePoint, multiply } from '../../../crypto/tdh2/group.js'
import {
  addSubShares,
  checkFreshDealing,
  checkReshareDealing,
  checkSubShare,
  combine,
  combineSubShares,
  createShare,
  type Dealing,
  type DealingCommitments,
  dealFresh,
  dealReshare,
  encrypt,
  formatDealing,
  freshKey,
  generateKeys,
  type PrivateShare,
  type PublicKey,
  parseCiphertext,
  parseDealing,
  parseDecryptionShare,
  parsePrivateShare,
  parsePublicKey,
  resharedKey,
  type ShareDealing,
  verifyShare,
} from '../../../crypto/tdh2/index.js'
import { reference, setOf } from '../../support/crypto/tdh2-reference.js'
import { readVectors } from '../../support/files.js'
import { isFull } from '../../support/tier.js'

interface Holders {
  readonly publicKey: PublicKey
  readonly shares: readonly PrivateShare[]
}

/** Reshares as the holders do, each new one with what it was sent. */
function reshare(
  { publicKey, shares }: Holders,
  dealers: readonly number[],
  { threshold, nodes }: { readonly threshold: number; readonly nodes: number },
): Holders {
  const dealings = dealers.map(at => dealReshare(shares[at] as PrivateShare, { threshold, nodes }))
  for (const dealing of dealings) checkReshareDealing(publicKey, dealing, threshold)
  return {
    publicKey: resharedKey(publicKey, dealings, nodes),
    shares: sharesOf(dealings, nodes, combineSubShares),
  }
}

function sharesOf(
  dealings: readonly ShareDealing[],
  nodes: number,
  make: typeof combineSubShares,
): readonly PrivateShare[] {
  return Array.from({ length: nodes }, (_, index) => {
    for (const dealing of dealings) checkSubShare(dealing, dealing.subShares[index] as PrivateShare)
    return make(
      new Map(dealings.map(({ dealer, subShares }) => [dealer, subShares[index] as PrivateShare])),
    )
  })
}

async function decrypt(
  { publicKey, shares }: Holders,
  holders: readonly number[],
  json: string,
  threshold: number,
): Promise<string> {
  const ciphertext = parseCiphertext(publicKey, json)
  const given = holders.map(at =>
    parseDecryptionShare(createShare(ciphertext, shares[at] as PrivateShare)),
  )
  for (const share of given) verifyShare(publicKey, ciphertext, share)
  return Buffer.from(await combine(ciphertext, given, { threshold })).toString()
}

const messageOf = (run: () => unknown): string => {
  try {
    run()
  } catch (thrown) {
    return (thrown as Error).message
  }
  return 'nothing was thrown'
}

describe('resharing', () => {
  const splits = fc
    .record({ nodes: fc.integer({ min: 1, max: 5 }), seed: fc.nat() })
    .chain(({ nodes }) =>
      fc.record({
        nodes: fc.constant(nodes),
        threshold: fc.integer({ min: 1, max: nodes }),
        order: fc.shuffledSubarray([...Array(nodes).keys()], { minLength: nodes }),
      }),
    )

  test('lets any threshold of new holders decrypt what was encrypted before, whatever the splits', async () => {
    await fc.assert(
      fc.asyncProperty(splits, splits, splits, async (one, two, three) => {
        const before = generateKeys({ threshold: one.threshold, nodes: one.nodes })
        const json = await encrypt(before.publicKey, Buffer.from('before'))
        const then = reshare(before, one.order.slice(0, one.threshold), two)
        const now = reshare(then, two.order.slice(0, two.threshold), three)
        expect(isSamePoint(now.publicKey.h, before.publicKey.h)).toBe(true)
        expect(isSamePoint(now.publicKey.gBar, before.publicKey.gBar)).toBe(true)
        for (const { index, v } of now.shares)
          expect(isSamePoint(multiply(G, v), now.publicKey.hArray[index] as never)).toBe(true)
        const holders = three.order.slice(0, three.threshold)
        expect(await decrypt(now, holders, json, three.threshold)).toBe('before')
      }),
      { numRuns: isFull ? 200 : 8 },
    )
  }, 60_000)

  test('makes old shares useless beside new ones, and too few dealers no key', async () => {
    const before = generateKeys({ threshold: 2, nodes: 3 })
    const json = await encrypt(before.publicKey, Buffer.from('before'))
    const after = reshare(before, [0, 1], { threshold: 2, nodes: 3 })
    const mixed = { ...after, shares: [before.shares[0], after.shares[1]] as PrivateShare[] }
    await expect(decrypt(mixed, [0, 1], json, 2)).rejects.toThrow('of index 0: error during')
    const ciphertext = parseCiphertext(after.publicKey, json)
    const shares = mixed.shares.map(each => parseDecryptionShare(createShare(ciphertext, each)))
    await expect(combine(ciphertext, shares, { threshold: 2 })).rejects.toThrow('authentication')
    expect(messageOf(() => reshare(before, [1], { threshold: 2, nodes: 3 }))).toBe(
      'the resharing is rejected: 1 dealers are too few for this public key',
    )
    // More than the threshold will do.
    const all = reshare(before, [0, 1, 2], { threshold: 3, nodes: 3 })
    expect(await decrypt(all, [2, 1, 0], json, 3)).toBe('before')
  })

  test('names a dealer that lies, and goes on without it', async () => {
    const before: Dealing = generateKeys({ threshold: 2, nodes: 3 })
    const options = { threshold: 2, nodes: 2 }
    const honest = before.shares.map(share => dealReshare(share, options))
    const [one, liar, two] = honest as [ShareDealing, ShareDealing, ShareDealing]
    const check = (dealing: DealingCommitments) =>
      messageOf(() => checkReshareDealing(before.publicKey, dealing, 2))
    // It deals another secret.
    expect(check(dealFresh(1, options))).toBe(
      'the dealing of holder 1 is rejected: it is not of the share that the public key has',
    )
    expect(check({ ...one, dealer: 7 })).toMatch(/holder 7 is rejected: there is no such holder/)
    expect(check({ ...one, commitments: one.commitments.slice(1) })).toMatch(
      /holder 0 is rejected: it must have 2 commitments/,
    )
    // It sends one holder something else.
    const { v } = liar.subShares[1] as PrivateShare
    const wrong = parsePrivateShare(
      JSON.stringify({
        Group: 'P256',
        Index: 1,
        V: Buffer.from((v ^ 1n).toString(16).padStart(64, '0'), 'hex').toString('base64'),
      }),
    )
    expect(messageOf(() => checkSubShare(liar, wrong))).toBe(
      'the dealing of holder 1 is rejected: the sub-share of holder 1 is not that of the commitments',
    )
    checkSubShare(liar, liar.subShares[0] as PrivateShare)
    const dealings = [one, two]
    const after = {
      publicKey: resharedKey(before.publicKey, dealings, 2),
      shares: sharesOf(dealings, 2, combineSubShares),
    }
    const json = await encrypt(before.publicKey, Buffer.from('before'))
    expect(await decrypt(after, [0, 1], json, 2)).toBe('before')
  })

  test('rejects repeated dealers and the sub-shares of several holders', () => {
    const { publicKey, shares } = generateKeys({ threshold: 2, nodes: 2 })
    const dealing = dealReshare(shares[0] as PrivateShare, { threshold: 2, nodes: 2 })
    expect(messageOf(() => resharedKey(publicKey, [dealing, dealing], 2))).toMatch(/different/)
    const [first, second] = dealing.subShares as [PrivateShare, PrivateShare]
    const mixed = new Map([
      [0, first],
      [1, second],
    ])
    expect(messageOf(() => combineSubShares(mixed))).toMatch(/must be those of one holder/)
    expect(messageOf(() => combineSubShares(new Map()))).toMatch(/must be those of one holder/)
  })

  test('writes what a dealer publishes, and no secret', () => {
    const dealing = dealReshare(generateKeys({ threshold: 1, nodes: 1 }).shares[0] as never, {
      threshold: 3,
      nodes: 3,
    })
    const json = formatDealing(dealing)
    expect(formatDealing(parseDealing(json))).toBe(json)
    expect(Object.keys(JSON.parse(json))).toEqual(['Group', 'Index', 'Commitments'])
    expect(JSON.stringify(dealing.subShares)).toBe('[{"index":0},{"index":1},{"index":2}]')
    expect(messageOf(() => parseDealing('{"Group":"P256","Index":0,"Commitments":[1]}'))).toMatch(
      /Commitments\[0\] must be base64 text/,
    )
  })
})

test('holders make a fresh key together, which none of them knows', async () => {
  const { publicKey: old } = generateKeys({ threshold: 1, nodes: 1 })
  const options = { threshold: 2, nodes: 3 }
  const dealings = [0, 1, 2].map(dealer => dealFresh(dealer, options))
  for (const dealing of dealings) checkFreshDealing(dealing, 2)
  const made = {
    publicKey: freshKey(old, dealings, 3),
    shares: sharesOf(dealings, 3, addSubShares),
  }
  const json = await encrypt(made.publicKey, Buffer.from('fresh'))
  for (const holders of [
    [0, 1],
    [2, 0],
  ])
    expect(await decrypt(made, holders, json, 2)).toBe('fresh')
  expect(isSamePoint(made.publicKey.h, old.h)).toBe(false)
})

describe('the reference in Go', () => {
  test.each(reference.sets.filter(({ k }) => k > 1).map(({ name }) => name))(
    'made ciphertexts that its shares of %s decrypt after resharing',
    async name => {
      const { public_key_json, private_shares_json, cases, k } = setOf(name)
      const before = {
        publicKey: parsePublicKey(public_key_json),
        shares: private_shares_json.map(parsePrivateShare),
      }
      const after = reshare(before, [...Array(k).keys()].reverse(), { threshold: 2, nodes: 4 })
      for (const { ciphertext_json, plaintext_b64 } of cases.slice(0, isFull ? 99 : 2))
        expect(await decrypt(after, [3, 1], ciphertext_json, 2)).toBe(
          Buffer.from(plaintext_b64, 'base64').toString(),
        )
    },
  )

  interface Reshared {
    readonly set: string
    readonly threshold: number
    readonly publicKey: string
    readonly ciphertext: string
    readonly plaintext: string
    readonly decryptionShares: readonly string[]
  }

  test('takes shares and keys that were reshared here, and its decryption shares verify', async () => {
    const found = readVectors<Reshared>('tdh2-reshared.json')
    const publicKey = parsePublicKey(found.publicKey)
    const before = parsePublicKey(setOf(found.set).public_key_json)
    expect(isSamePoint(publicKey.h, before.h)).toBe(true)
    const ciphertext = parseCiphertext(before, found.ciphertext)
    const shares = found.decryptionShares.map(parseDecryptionShare)
    for (const share of shares) verifyShare(publicKey, ciphertext, share)
    const { threshold } = found
    const bytes = await combine(ciphertext, shares.slice(-threshold), { threshold })
    expect(Buffer.from(bytes).toString()).toBe(found.plaintext)
  })
})
