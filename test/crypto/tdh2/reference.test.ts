import { describe, expect, test } from '@jest/globals'
import { hashCiphertext, hashShare, hashToPad } from '../../../crypto/tdh2/encoding.js'
import {
  decodePoint,
  encodeScalar,
  ORDER,
  type Point,
  pointDigits,
  reduceDigest,
} from '../../../crypto/tdh2/group.js'
import {
  combine,
  createShare,
  encrypt,
  formatMasterSecret,
  formatPrivateShare,
  formatPublicKey,
  generateKeys,
  parseCiphertext,
  parseDecryptionShare,
  parseMasterSecret,
  parsePrivateShare,
  parsePublicKey,
  redeal,
  verifyShare,
} from '../../../crypto/tdh2/index.js'
import {
  caseOf,
  cryptoGiving,
  fromHex,
  giving,
  reference,
  setOf,
  toHex,
} from '../../support/crypto/tdh2-reference.js'

const pointOf = (digits: string): Point => {
  const point = decodePoint(fromHex(digits))
  if (typeof point === 'string') throw new Error(point)
  return point
}

describe('the hashes are those of the reference', () => {
  const [h1, h2, h4, reduction] = reference.hashes

  test('H1, the pad of a point', () => {
    const [point] = h1.points_hex.map(pointOf)
    expect(toHex(hashToPad(point as Point))).toBe(h1.digest_hex)
  })

  test('H2, of message, label and four points', () => {
    const points = h2.points_hex_u_w_ubar_wbar.map(pointOf)
    const scalar = hashCiphertext(fromHex(h2.c_hex), fromHex(h2.label_hex), points)
    expect(toHex(encodeScalar(scalar))).toBe(h2.scalar_hex)
  })

  test('H4, of three points', () => {
    const scalar = hashShare(h4.points_hex_ui_uhat_hhat.map(pointOf))
    expect(toHex(encodeScalar(scalar))).toBe(h4.scalar_hex)
  })

  test.each(reduction.examples)('a digest of $bytes_hex is reduced', example => {
    expect(toHex(encodeScalar(reduceDigest(fromHex(example.bytes_hex))))).toBe(example.scalar_hex)
  })

  test('the order is that of the reference', () => {
    expect(toHex(encodeScalar(ORDER - 1n))).toBe(reference.meta.order_hex.replace(/51$/, '50'))
  })

  test('infinity hashes as 04 and zeros', () => {
    expect(pointDigits(undefined)).toBe(`04${'00'.repeat(64)}`)
  })
})

describe.each(reference.sets)('the keys $name are those of the reference', set => {
  test('the public key reads and writes as the same bytes', () => {
    expect(formatPublicKey(parsePublicKey(set.public_key_json))).toBe(set.public_key_json)
    expect(toHex(new TextEncoder().encode(set.public_key_json))).toBe(set.public_key_hex_of_json)
  })

  test('private shares and master secret read and write as the same bytes', () => {
    for (const json of set.private_shares_json)
      expect(formatPrivateShare(parsePrivateShare(json))).toBe(json)
    expect(formatMasterSecret(parseMasterSecret(set.master_secret_json))).toBe(
      set.master_secret_json,
    )
  })

  test('the same polynomial gives the same keys', () => {
    const { polynomial_coefficients_hex, g_bar_scalar_hex } = set.keygen
    const dealt = generateKeys({
      threshold: set.k,
      nodes: set.n,
      randomScalar: giving(...polynomial_coefficients_hex, g_bar_scalar_hex),
    })
    expect(formatPublicKey(dealt.publicKey)).toBe(set.public_key_json)
    expect(formatMasterSecret(dealt.masterSecret)).toBe(set.master_secret_json)
    expect(dealt.shares.map(formatPrivateShare)).toEqual(set.private_shares_json)
  })

  test('a redealing by the same polynomial gives the same shares', () => {
    const publicKey = parsePublicKey(set.public_key_json)
    const dealt = redeal(publicKey, parseMasterSecret(set.master_secret_json), {
      threshold: set.k,
      nodes: set.n,
      randomScalar: giving(...set.keygen.polynomial_coefficients_hex.slice(1)),
    })
    expect(dealt.shares.map(formatPrivateShare)).toEqual(set.private_shares_json)
    expect(formatPublicKey(dealt.publicKey)).toBe(set.public_key_json)
  })
})

const cases = reference.sets.flatMap(set =>
  set.cases.map(each => ({ ...each, set, title: `${set.name} ${each.name}` })),
)

describe.each(cases)('the ciphertext $title is that of the reference', each => {
  const publicKey = parsePublicKey(each.set.public_key_json)
  const ciphertext = parseCiphertext(publicKey, each.ciphertext_json)
  const shares = each.decryption_shares_json.map(parseDecryptionShare)
  const { k: threshold } = each.set

  test('it verifies and tells its label', () => {
    expect(toHex(ciphertext.label)).toBe(each.label_hex)
  })

  test('every decryption share verifies', () => {
    expect(shares.map(share => share.index)).toEqual(shares.map((_, index) => index))
    for (const share of shares)
      expect(() => verifyShare(publicKey, ciphertext, share)).not.toThrow()
  })

  test.each(each.combinations_that_decrypt.map(indexes => ({ indexes })))(
    'the shares $indexes decrypt it, taken as they come or all together',
    async ({ indexes }) => {
      const chosen = indexes.flatMap(index => shares[index] ?? [])
      for (const needed of [threshold, indexes.length]) {
        const plaintext = await combine(ciphertext, chosen, { threshold: needed })
        expect(Buffer.from(plaintext).toString('base64')).toBe(each.plaintext_b64)
      }
      expect(each.combined_plaintext_b64).toBe(each.plaintext_b64)
    },
  )

  test('one share too few does not decrypt it', async () => {
    const few = shares.slice(0, threshold - 1)
    await expect(combine(ciphertext, few, { threshold })).rejects.toThrow('too few shares')
  })

  const inputs = each.deterministic_inputs
  if (inputs === undefined) return

  test('the same randomness gives the same bytes', async () => {
    const json = await encrypt(publicKey, Buffer.from(each.plaintext_b64, 'base64'), {
      label: fromHex(each.label_hex),
      randomScalar: giving(inputs.r_hex, inputs.s_hex),
      crypto: await cryptoGiving(inputs.sym_key_hex, inputs.nonce_hex),
    })
    expect(json).toBe(each.ciphertext_json)
    expect(json).toHaveLength(each.ciphertext_length)
    const { TDH2Ctxt } = JSON.parse(json)
    expect(Buffer.from(TDH2Ctxt, 'base64').toString()).toBe(each.tdh2_ctxt_json_decoded)
  })

  test('the same randomness gives the same decryption shares', () => {
    const made = each.set.private_shares_json.map((json, index) =>
      createShare(
        ciphertext,
        parsePrivateShare(json),
        giving(inputs.decryption_share_s_i_hex[index] ?? ''),
      ),
    )
    expect(made).toEqual(each.decryption_shares_json)
  })
})

describe('the sizes are those of the reference', () => {
  const { by_n, table, max_plaintext_for_2000_byte_ciphertext_json: limit } = reference.sizes

  test.each(Object.entries(by_n))('of keys and shares for %s nodes', async (nodes, sizes) => {
    const { publicKey, shares } = generateKeys({ threshold: 1, nodes: Number(nodes) })
    expect(formatPublicKey(publicKey)).toHaveLength(sizes.public_key_json)
    const ciphertext = parseCiphertext(publicKey, await encrypt(publicKey, new Uint8Array()))
    const last = shares.at(-1)
    if (last === undefined) throw new Error('no share')
    expect(createShare(ciphertext, last)).toHaveLength(sizes.decryption_share_json_last_index)
  })

  test.each(table)(
    'of a ciphertext of $plaintext bytes',
    async ({ plaintext, ciphertext_json }) => {
      const publicKey = parsePublicKey(setOf('1of1').public_key_json)
      expect(await encrypt(publicKey, new Uint8Array(plaintext))).toHaveLength(ciphertext_json)
    },
  )

  test('2000 bytes of ciphertext hold that much plaintext and no more', async () => {
    const publicKey = parsePublicKey(setOf('1of1').public_key_json)
    const sizeOf = async (size: number): Promise<number> =>
      (await encrypt(publicKey, new Uint8Array(size))).length
    expect(await sizeOf(limit)).toBeLessThanOrEqual(2000)
    expect(await sizeOf(limit + 1)).toBeGreaterThan(2000)
  })
})

describe('a redealing', () => {
  const set = setOf('3of5')
  const each = caseOf(set, 'owner-label')
  const publicKey = parsePublicKey(set.public_key_json)
  const ciphertext = parseCiphertext(publicKey, each.ciphertext_json)
  const dealt = redeal(publicKey, parseMasterSecret(set.master_secret_json), {
    threshold: 2,
    nodes: 4,
  })

  test('keeps the key that encrypts, with new shares to verify against', () => {
    const before = JSON.parse(set.public_key_json)
    const after = JSON.parse(formatPublicKey(dealt.publicKey))
    expect({ ...after, HArray: [] }).toEqual({ ...before, HArray: [] })
    expect(after.HArray).toHaveLength(4)
    expect(before.HArray).not.toEqual(expect.arrayContaining([after.HArray[0]]))
  })

  test('decrypts what was encrypted before', async () => {
    const shares = dealt.shares.map(share => parseDecryptionShare(createShare(ciphertext, share)))
    for (const share of shares) verifyShare(dealt.publicKey, ciphertext, share)
    const plaintext = await combine(ciphertext, shares.slice(1, 3), { threshold: 2 })
    expect(Buffer.from(plaintext).toString('base64')).toBe(each.plaintext_b64)
  })

  test('gives shares that the old key does not know', () => {
    for (const share of dealt.shares) {
      const made = parseDecryptionShare(createShare(ciphertext, share))
      expect(() => verifyShare(publicKey, ciphertext, made)).toThrow('verification of E_i')
    }
  })

  test('makes old shares useless next to new ones', async () => {
    const [first] = dealt.shares
    if (first === undefined) throw new Error('no share')
    const mixed = [
      parseDecryptionShare(createShare(ciphertext, first)),
      parseDecryptionShare(each.decryption_shares_json[1] ?? ''),
    ]
    await expect(combine(ciphertext, mixed, { threshold: 2 })).rejects.toThrow(
      'message authentication failed',
    )
  })

  test('needs the secret of that very key', () => {
    const other = parseMasterSecret(setOf('2of3').master_secret_json)
    expect(() => redeal(publicKey, other, { threshold: 2, nodes: 3 })).toThrow(
      expect.objectContaining({ code: 'VALIDATION' }),
    )
  })
})
