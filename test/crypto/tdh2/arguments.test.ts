import { inspect } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { defaultCrypto, type WebCrypto } from '../../../crypto/crypto.js'
import { ORDER, randomScalar } from '../../../crypto/tdh2/group.js'
import {
  combine,
  createCiphertextReader,
  createShare,
  type DecryptionShare,
  encrypt,
  formatMasterSecret,
  formatPrivateShare,
  formatPublicKey,
  generateKeys,
  ownerLabel,
  parseCiphertext,
  parseDecryptionShare,
  parseMasterSecret,
  parsePrivateShare,
  parsePublicKey,
  redeal,
  verifyShare,
} from '../../../crypto/tdh2/index.js'
import { caseOf, setOf, toHex } from '../../support/crypto/tdh2-reference.js'

const set = setOf('3of5')
const original = caseOf(set, 'short')
const publicKey = parsePublicKey(set.public_key_json)
const ciphertext = parseCiphertext(publicKey, original.ciphertext_json)
const shares = original.decryption_shares_json.map(parseDecryptionShare)
const secretJson = set.private_shares_json[2] ?? ''
const secret = parsePrivateShare(secretJson)
const masterSecret = parseMasterSecret(set.master_secret_json)

const invalid = (words: string): unknown =>
  expect.objectContaining({ code: 'VALIDATION', message: expect.stringContaining(words) })

describe('the label of an owner', () => {
  const address = '00112233445566778899AaBbCcDdEeFf01234567'

  test('is 12 zero bytes and the address', () => {
    const expected = `${'00'.repeat(12)}${address.toLowerCase()}`
    expect(toHex(ownerLabel(address))).toBe(expected)
    expect(toHex(ownerLabel(`0x${address}`))).toBe(expected)
  })

  test('is the one the reference encrypted for', () => {
    const { label_hex } = caseOf(set, 'owner-label')
    expect(toHex(ownerLabel(label_hex.slice(24)))).toBe(label_hex)
  })

  test.each([
    '',
    '0x',
    address.slice(1),
    `${address}0`,
    `0X0x${address}`,
    `${address}\n`,
    undefined,
  ])('%p is no owner', owner => {
    expect(() => ownerLabel(owner as string)).toThrow(invalid('owner must be an address'))
  })
})

describe('a caller’s mistakes are named', () => {
  test.each([
    [{ threshold: 0, nodes: 1 }, 'threshold has to be positive'],
    [{ threshold: -1, nodes: 1 }, 'threshold has to be positive'],
    [{ threshold: 3, nodes: 2 }, 'threshold is higher than total number of nodes'],
    [{ threshold: 1.5, nodes: 2 }, 'threshold must be a whole number'],
    [{ threshold: Number.NaN, nodes: 2 }, 'threshold must be a number'],
    [{ threshold: 1, nodes: 0 }, 'nodes must be at least 1'],
    [{ threshold: 1, nodes: 1001 }, 'nodes must be at most 1000'],
    [{ threshold: 1, nodes: '2' }, 'nodes must be a number'],
    [{ threshold: 1, nodes: 1, randomScalar: 7n }, 'randomScalar must be a function'],
    [undefined, 'nodes must be a number'],
  ])('of %p for a deal', (options, words) => {
    expect(() => generateKeys(options as never)).toThrow(invalid(words))
    expect(() => redeal(publicKey, masterSecret, options as never)).toThrow(invalid(words))
  })

  test('of the label', async () => {
    for (const label of [new Uint8Array(31), new Uint8Array(33), 'x'.repeat(32)])
      await expect(
        encrypt(publicKey, new Uint8Array(), { label: label as Uint8Array }),
      ).rejects.toEqual(invalid('label must be a Uint8Array of 32 bytes'))
  })

  test('of the plaintext', async () => {
    await expect(encrypt(publicKey, 'text' as never)).rejects.toEqual(
      invalid('plaintext must be a Uint8Array'),
    )
  })

  test.each([0, -1, 1.5, Number.NaN, undefined, 1001])('of a threshold of %p', async threshold => {
    await expect(combine(ciphertext, shares, { threshold: threshold as number })).rejects.toEqual(
      invalid('threshold'),
    )
  })

  test('of a share without its scalar, as a spread leaves it', () => {
    expect(() => createShare(ciphertext, { ...secret })).toThrow(
      invalid('share.v must be a bigint'),
    )
    expect(() => formatPrivateShare({ ...secret })).toThrow(invalid('share.v must be a bigint'))
  })

  test.each([0n, -1n, ORDER, ORDER + 1n, 7, undefined])('of a scalar %p', async bad => {
    const scalar = bad as bigint
    const source = (): bigint => scalar
    const words = 'must be a bigint from 1 to the order of P-256 less 1'
    expect(() => createShare(ciphertext, { index: 0, v: scalar })).toThrow(invalid(words))
    expect(() => createShare(ciphertext, secret, source)).toThrow(invalid(words))
    expect(() => generateKeys({ threshold: 1, nodes: 1, randomScalar: source })).toThrow(
      invalid(words),
    )
    expect(() => formatMasterSecret(scalar)).toThrow(invalid(words))
    expect(() => redeal(publicKey, scalar, { threshold: 1, nodes: 1 })).toThrow(invalid(words))
    await expect(encrypt(publicKey, new Uint8Array(), { randomScalar: source })).rejects.toEqual(
      invalid(words),
    )
  })

  test.each([
    ['index', Number.NaN, 'must be a number, not NaN'],
    ['index', '1', 'must be a number, not string'],
    ['index', -1, 'must be at least 0, not -1'],
    ['index', 0.5, 'must be a whole number, not 0.5'],
    ['index', Number.POSITIVE_INFINITY, 'must be finite'],
    ['index', undefined, 'must be a number, not undefined'],
    ['ui', {}, 'must be a point of P-256'],
    ['ui', undefined, 'must be a point of P-256'],
    ['ui', { toHex: () => 'ab' }, 'must be a point of P-256'],
    ['ui', original.decryption_shares_json[0], 'must be a point of P-256'],
    ['ei', 7, 'must be a bigint from 0'],
    ['fi', ORDER, 'must be a bigint from 0'],
    ['fi', -1n, 'must be a bigint from 0'],
  ])('of a decryption share whose %s is %p', async (field, value, rule) => {
    const [first, second, third] = shares as DecryptionShare[]
    const bad = { ...first, [field]: value } as DecryptionShare
    const given = [second, third, bad] as DecryptionShare[]
    await expect(combine(ciphertext, given, { threshold: 3 })).rejects.toEqual(
      invalid(`shares[2].${field} ${rule}`),
    )
    expect(() => verifyShare(publicKey, ciphertext, bad)).toThrow(invalid(`share.${field} ${rule}`))
  })

  test.each([undefined, null, 7, 'text', [], {}])('of %p in place of what was read', async bad => {
    const named = (field: string) =>
      expect.objectContaining({
        code: 'VALIDATION',
        message: expect.stringMatching(new RegExp(`^${field}[.\\w]* must be `)),
      })
    const given = bad as never
    const [share] = shares as [DecryptionShare]
    const threshold = { threshold: 3 }
    await expect(combine(given, shares, threshold)).rejects.toEqual(named('ciphertext'))
    await expect(combine(ciphertext, [given], threshold)).rejects.toEqual(named('shares\\[0\\]'))
    if (!Array.isArray(bad))
      await expect(combine(ciphertext, given, threshold)).rejects.toEqual(named('shares'))
    await expect(encrypt(given, new Uint8Array())).rejects.toEqual(named('publicKey'))
    for (const [field, work] of [
      ['publicKey', () => formatPublicKey(given)],
      ['publicKey', () => redeal(given, masterSecret, { threshold: 1, nodes: 1 })],
      ['publicKey', () => parseCiphertext(given, original.ciphertext_json)],
      ['publicKey', () => createCiphertextReader(given)],
      ['publicKey', () => verifyShare(given, ciphertext, share)],
      ['ciphertext', () => verifyShare(publicKey, given, share)],
      ['share', () => verifyShare(publicKey, ciphertext, given)],
      ['ciphertext', () => createShare(given, secret)],
      ['share', () => createShare(ciphertext, given)],
      ['share', () => formatPrivateShare(given)],
    ] as const)
      expect(work).toThrow(named(field))
  })

  test('of a missing entry among the shares or the points of the holders', async () => {
    const sparse = Object.assign([...shares], { length: 9 })
    await expect(combine(ciphertext, sparse, { threshold: 3 })).rejects.toEqual(
      invalid('shares[5] must be an object, not undefined'),
    )
    const [share] = shares as [DecryptionShare]
    const key = { ...publicKey, hArray: [{} as never] }
    const rule = invalid('publicKey.hArray[0] must be a point of P-256')
    expect(() => verifyShare(key, ciphertext, share)).toThrow(rule)
    expect(() => formatPublicKey(key)).toThrow(rule)
  })

  test.each([
    ['label', new Uint8Array(31), 'must be a Uint8Array of 32 bytes'],
    ['c', 'text', 'must be a Uint8Array of 32 bytes'],
    ['message', 'text', 'must be a Uint8Array'],
    ['nonce', new Uint8Array(11), 'must be a Uint8Array of 12 bytes'],
    ['u', {}, 'must be a point of P-256'],
  ])('of a ciphertext whose %s is %p', async (field, value, rule) => {
    const bad = { ...ciphertext, [field]: value }
    await expect(combine(bad, shares, { threshold: 3 })).rejects.toEqual(
      invalid(`ciphertext.${field} ${rule}`),
    )
  })

  test('of scalars that make a share of zero', () => {
    const scalars = [1n, ORDER - 1n, 5n]
    const randomScalar = (): bigint => scalars.shift() ?? 0n
    expect(() => generateKeys({ threshold: 2, nodes: 2, randomScalar })).toThrow(
      invalid('every share'),
    )
  })
})

describe('combining', () => {
  test('takes one share of an index and leaves out what it does not need', async () => {
    const chosen = [4, 4, 1, 0, 0, 3].flatMap(index => shares[index] ?? [])
    const plaintext = await combine(ciphertext, chosen, { threshold: 3 })
    expect(Buffer.from(plaintext).toString('base64')).toBe(original.plaintext_b64)
  })

  test('takes the lowest indexes, and of one index the share that comes first', async () => {
    const [low, , , , high] = shares as [
      DecryptionShare,
      unknown,
      unknown,
      unknown,
      DecryptionShare,
    ]
    const [badLow, badHigh] = [
      { ...low, ui: high.ui },
      { ...high, ui: low.ui },
    ]
    const between = shares.slice(1, 3)
    for (const good of [
      [badHigh, ...between, low],
      [low, badLow, ...between],
    ])
      await expect(combine(ciphertext, good, { threshold: 3 })).resolves.toHaveLength(12)
    for (const bad of [
      [...between, badLow, high],
      [badLow, low, ...between],
    ])
      await expect(combine(ciphertext, bad, { threshold: 3 })).rejects.toThrow('authentication')
  })

  test('refuses shares that add up to infinity', async () => {
    // The line through 2 u at X = 1 and 4 u at X = 2 is at infinity at X = 0.
    const [one, two] = [2n, 4n].map((v, index) =>
      parseDecryptionShare(createShare(ciphertext, { index, v })),
    )
    if (one === undefined || two === undefined) throw new Error('no shares')
    await expect(combine(ciphertext, [one, two], { threshold: 2 })).rejects.toMatchObject({
      code: 'TDH2',
      message: expect.stringContaining('infinity'),
    })
  })
})

describe('secrets do not show', () => {
  const { V } = JSON.parse(secretJson)
  const { S } = JSON.parse(set.master_secret_json)
  const forms = (text: string): string[] => {
    const digits = Buffer.from(text, 'base64').toString('hex')
    return [text.slice(0, 12), digits.slice(0, 16), BigInt(`0x${digits}`).toString().slice(0, 16)]
  }

  test('in a key or share that is logged', () => {
    const dealt = redeal(publicKey, masterSecret, { threshold: 1, nodes: 2 })
    const shown = [secret, dealt, dealt.shares, publicKey, ciphertext, shares].map(each =>
      inspect(each, { depth: 9 }),
    )
    shown.push(JSON.stringify(secret), JSON.stringify(dealt.shares))
    expect(shown[0]).toContain('index: 2')
    for (const text of shown)
      for (const form of [...forms(V), ...forms(S)]) expect(text).not.toContain(form)
  })

  test.each([
    ['cut short', secretJson.slice(0, -3)],
    ['with more behind', `${secretJson}x`],
    ['quoted', JSON.stringify(secretJson)],
    ['a byte too long', secretJson.replace(V, `${V.slice(0, -1)}A`)],
    ['of base64url', secretJson.replace('=', '')],
    ['with the scalar for group', JSON.stringify({ Group: V, Index: 2, V })],
    ['with the scalar for index', JSON.stringify({ Group: 'P256', Index: V, V })],
    ['of another group', secretJson.replace('P256', 'P384')],
  ])('in the error for a private share %s', (_, json) => {
    let shown = ''
    try {
      parsePrivateShare(json)
    } catch (error) {
      shown = inspect(error, { depth: 9, showHidden: true })
    }
    expect(shown).toContain('TDH2Error')
    for (const form of forms(V)) expect(shown).not.toContain(form)
  })

  test('in memory once the platform has the key', async () => {
    const { subtle, getRandomValues } = await defaultCrypto()
    const keys: Uint8Array[] = []
    const crypto: WebCrypto = {
      subtle: Object.assign(Object.create(subtle), {
        importKey(...args: Parameters<typeof subtle.importKey>) {
          keys.push(args[1])
          return subtle.importKey(...args)
        },
        encrypt: subtle.encrypt.bind(subtle),
        decrypt: subtle.decrypt.bind(subtle),
      }),
      getRandomValues,
    }
    await encrypt(publicKey, new Uint8Array(1), { crypto })
    await combine(ciphertext, shares, { threshold: 3, crypto })
    expect(keys).toEqual([new Uint8Array(32), new Uint8Array(32)])
  })

  test('in the error for a message that does not decrypt', async () => {
    const wrong = shares.slice(0, 2)
    const error = await combine(ciphertext, wrong, { threshold: 2 }).catch(thrown => thrown)
    expect(error).toMatchObject({ code: 'TDH2' })
    expect(Object.keys(error)).toEqual(['code'])
  })
})

test('scalars are drawn from the whole range', () => {
  const drawn = Array.from({ length: 64 }, randomScalar)
  expect(new Set(drawn).size).toBe(64)
  for (const scalar of drawn) expect(scalar > 0n && scalar < ORDER).toBe(true)
  expect(drawn.some(scalar => scalar > ORDER / 2n)).toBe(true)
  expect(drawn.some(scalar => scalar < ORDER / 2n)).toBe(true)
})

test('keys and shares cannot be changed', () => {
  expect(Object.isFrozen(publicKey)).toBe(true)
  expect(Object.isFrozen(publicKey.hArray)).toBe(true)
  expect(Object.isFrozen(secret)).toBe(true)
})
