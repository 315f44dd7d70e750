import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { isStreamsError } from '../../../core/errors.js'
import { decodeBase64, encodeBase64 } from '../../../crypto/bytes.js'
import { TDH2Error } from '../../../crypto/tdh2/encoding.js'
import { randomScalar } from '../../../crypto/tdh2/group.js'
import {
  combine,
  createShare,
  type DecryptionShare,
  encrypt,
  generateKeys,
  parseCiphertext,
  parseDecryptionShare,
  parseMasterSecret,
  parsePrivateShare,
  parsePublicKey,
  verifyShare,
} from '../../../crypto/tdh2/index.js'
import { wrapKey } from '../../../crypto/tdh2/wrapped-key.js'
import { caseOf, fromHex, reference, setOf, toHex } from '../../support/crypto/tdh2-reference.js'
import { inForm } from '../../support/tier.js'

const set = setOf('3of5')
const original = caseOf(set, 'short')
const publicKey = parsePublicKey(set.public_key_json)
const ciphertext = parseCiphertext(publicKey, original.ciphertext_json)
const shareJson = original.decryption_shares_json[1] ?? ''

const base64 = (bytes: Uint8Array | string): string => Buffer.from(bytes).toString('base64')
const innerOf = (json: string): string =>
  Buffer.from(JSON.parse(json).TDH2Ctxt, 'base64').toString('latin1')
const withInner = (inner: string): string =>
  JSON.stringify({
    ...JSON.parse(original.ciphertext_json),
    TDH2Ctxt: base64(Buffer.from(inner, 'latin1')),
  })
const changedInner = (change: object): string =>
  withInner(JSON.stringify({ ...JSON.parse(innerOf(original.ciphertext_json)), ...change }))

/** 32 bytes that end with these. */
const word = (...digits: readonly string[]): string => digits.join('').padStart(64, '0')
const prime = 'ffffffff00000001000000000000000000000000ffffffffffffffffffffffff'
const order = reference.meta.order_hex

describe('base64 is that of Go', () => {
  test('every length comes back', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 20_000 }), bytes => {
        const text = encodeBase64(bytes)
        expect(text).toBe(base64(bytes))
        expect(decodeBase64(text)).toEqual(bytes)
      }),
      { numRuns: 50 },
    )
  })

  test.each([
    ['no padding', 'QQ'],
    ['half of the padding', 'QQ='],
    ['padding of nothing', '===='],
    ['padding inside', 'QQ==QUFB'],
    ['base64url', '-_-_'],
    ['a blank', 'QU FB'],
    ['a blank behind', 'QUFB '],
    ['a tab', 'QUFB\t'],
    ['what is no digit', 'QU*B'],
    ['what is no ASCII', 'QUFÿ'],
    ['bits left over', 'QR=='],
    ['one digit', 'Q'],
  ])('%s is rejected', (_, text) => {
    expect(decodeBase64(text)).toBeUndefined()
  })

  test('line ends inside are skipped', () => {
    expect(decodeBase64('QU\r\nFB\n')).toEqual(Uint8Array.of(65, 65, 65))
  })
})

describe('points and scalars', () => {
  const point = original.decryption_shares_json.map(json =>
    toHex(Buffer.from(JSON.parse(json).U_i, 'base64')),
  )[0] as string
  const x = point.slice(2, 66)
  const y = point.slice(66)
  const negated = (BigInt(`0x${prime}`) - BigInt(`0x${y}`)).toString(16).padStart(64, '0')

  test.each([
    ['nothing', '', 'wrong buffer size'],
    ['a compressed point', `02${x}`, 'wrong buffer size'],
    ['a byte more', `${point}00`, 'wrong buffer size'],
    ['a hybrid point', `06${x}${y}`, 'invalid elliptic curve point'],
    ['no point of the curve', `04${x}${word('01')}`, 'invalid elliptic curve point'],
    ['X and Y swapped', `04${y}${x}`, 'invalid elliptic curve point'],
    ['a coordinate that is the prime', `04${prime}${y}`, 'invalid elliptic curve point'],
    ['a coordinate over the prime', `04${x}${'f'.repeat(64)}`, 'invalid elliptic curve point'],
    ['infinity', `04${word()}${word()}`, 'the point at infinity is not allowed'],
    ['infinity in other words', `00${word()}${word()}`, 'the point at infinity is not allowed'],
  ])('%s is rejected wherever a point stands', (_, digits, rule) => {
    const text = base64(fromHex(digits))
    const keyWith = (change: object): string =>
      JSON.stringify({ ...JSON.parse(set.public_key_json), ...change })
    const attempts: [string, () => unknown][] = [
      ['G_bar', () => parsePublicKey(keyWith({ G_bar: text }))],
      ['H', () => parsePublicKey(keyWith({ H: text }))],
      ['HArray[1]', () => parsePublicKey(keyWith({ HArray: [base64(fromHex(point)), text] }))],
      ['U', () => parseCiphertext(publicKey, changedInner({ U: text }))],
      ['U_bar', () => parseCiphertext(publicKey, changedInner({ U_bar: text }))],
      ['U_i', () => parseDecryptionShare(JSON.stringify({ ...JSON.parse(shareJson), U_i: text }))],
    ]
    for (const [field, attempt] of attempts) {
      expect(attempt).toThrow(TDH2Error)
      expect(attempt).toThrow(`rejected: ${field}: ${rule}`)
    }
  })

  test('the negative of a point is another point', () => {
    const json = JSON.stringify({
      ...JSON.parse(shareJson),
      U_i: base64(fromHex(`04${x}${negated}`)),
    })
    const share = parseDecryptionShare(json)
    expect(() => verifyShare(publicKey, ciphertext, share)).toThrow(TDH2Error)
  })

  test.each([
    ['nothing', '', 'wrong size buffer'],
    ['31 bytes', '01'.repeat(31), 'wrong size buffer'],
    ['33 bytes', '00'.repeat(33), 'wrong size buffer'],
    ['the order', order, 'value out of range'],
    ['the most that 32 bytes hold', 'f'.repeat(64), 'value out of range'],
  ])('%s is rejected wherever a scalar stands', (_, digits, rule) => {
    const text = base64(fromHex(digits))
    const shareWith = (change: object): string =>
      JSON.stringify({ ...JSON.parse(shareJson), ...change })
    const attempts: [string, () => unknown][] = [
      ['E', () => parseCiphertext(publicKey, changedInner({ E: text }))],
      ['F', () => parseCiphertext(publicKey, changedInner({ F: text }))],
      ['E_i', () => parseDecryptionShare(shareWith({ E_i: text }))],
      ['F_i', () => parseDecryptionShare(shareWith({ F_i: text }))],
      ['V', () => parsePrivateShare(JSON.stringify({ Group: 'P256', Index: 0, V: text }))],
      ['S', () => parseMasterSecret(JSON.stringify({ Group: 'P256', S: text }))],
    ]
    for (const [field, attempt] of attempts) {
      expect(attempt).toThrow(TDH2Error)
      expect(attempt).toThrow(`rejected: ${field}: ${rule}`)
    }
  })

  test('proofs of zeros are read, and found wrong', () => {
    const zero = base64(new Uint8Array(32))
    for (const change of [{ E: zero }, { F: zero }, { E: zero, F: zero }])
      expect(() => parseCiphertext(publicKey, changedInner(change))).toThrow('wrong e')
    for (const change of [{ E_i: zero }, { F_i: zero }, { E_i: zero, F_i: zero }]) {
      const share = parseDecryptionShare(JSON.stringify({ ...JSON.parse(shareJson), ...change }))
      expect(() => verifyShare(publicKey, ciphertext, share)).toThrow('verification of E_i')
    }
  })

  test.each([[-1], [1.5], [2 ** 53], ['1'], [null], [undefined], [[1]]])(
    'an index of %p is rejected',
    Index => {
      const share = JSON.stringify({ ...JSON.parse(shareJson), Index })
      expect(() => parseDecryptionShare(share)).toThrow('Index: invalid share index')
      const secret = JSON.stringify({ ...JSON.parse(set.private_shares_json[0] ?? ''), Index })
      expect(() => parsePrivateShare(secret)).toThrow('Index: invalid share index')
    },
  )
})

describe('any text but the right one is rejected by a TDH2Error', () => {
  const parsers: readonly (readonly [string, string, (json: string) => unknown])[] = [
    ['public key', set.public_key_json, parsePublicKey],
    ['private share', set.private_shares_json[0] ?? '', parsePrivateShare],
    ['master secret', set.master_secret_json, parseMasterSecret],
    ['ciphertext', original.ciphertext_json, json => parseCiphertext(publicKey, json)],
    ['decryption share', shareJson, parseDecryptionShare],
  ]

  /** True where it is taken; anything but a TDH2Error is thrown on. */
  function takes(parse: (json: string) => unknown, json: string): boolean {
    try {
      parse(json)
      return true
    } catch (error) {
      if (isStreamsError(error, 'TDH2')) return false
      throw error
    }
  }

  describe.each(parsers)('%s', (_, json, parse) => {
    test.each([
      ['nothing', ''],
      ['null', 'null'],
      ['a number', '1'],
      ['an array', '[]'],
      ['an array of arrays', '['.repeat(100_000) + ']'.repeat(100_000)],
      ['half of it', json.slice(0, json.length / 2)],
      ['twice', json + json],
      ['a byte order mark before', `\ufeff${json}`],
      ['far too much', `${json}${' '.repeat(1_100_000)}`],
      ['a prototype', `{"__proto__":${json}}`],
    ])('%s is rejected', (__, text) => {
      expect(takes(parse, text)).toBe(false)
    })

    test('order, unknown fields and white space do not matter', () => {
      const entries = Object.entries(JSON.parse(json)).reverse()
      expect(
        takes(parse, JSON.stringify(Object.fromEntries([['x', {}], ...entries]), null, 2)),
      ).toBe(true)
    })

    test('every field is needed, and needs its type', () => {
      const fields = JSON.parse(json)
      for (const field of Object.keys(fields).filter(name => name !== 'HArray')) {
        const { [field]: __, ...rest } = fields
        expect(takes(parse, JSON.stringify(rest))).toBe(false)
        for (const value of [null, true, {}, [], '', 'x', -1])
          expect(takes(parse, JSON.stringify({ ...rest, [field]: value }))).toBe(false)
      }
    })

    test('text cut and spliced anywhere', () => {
      fc.assert(
        fc.property(fc.nat(json.length), fc.nat(8), fc.string({ maxLength: 8 }), (at, cut, put) => {
          takes(parse, json.slice(0, at) + put + json.slice(at + cut))
        }),
        { numRuns: 200 },
      )
    })

    test('any other JSON', () => {
      fc.assert(
        fc.property(fc.json(), other => {
          expect(takes(parse, other)).toBe(false)
        }),
      )
    })

    test('what is no text is the caller’s mistake', () => {
      expect(() => parse(undefined as unknown as string)).toThrow(
        expect.objectContaining({ code: 'VALIDATION' }),
      )
    })
  })

  test('a key of more than 1000 shares is rejected', () => {
    const { HArray, ...rest } = JSON.parse(set.public_key_json)
    const many = JSON.stringify({ ...rest, HArray: new Array(1001).fill(HArray[0]) })
    expect(() => parsePublicKey(many)).toThrow('HArray must not have more than 1000 entries')
    expect(() => parsePublicKey(JSON.stringify({ ...rest, HArray: {} }))).toThrow('an array')
  })

  test('who only encrypts needs no shares in the key', async () => {
    const { HArray, ...rest } = JSON.parse(set.public_key_json)
    for (const bare of [rest, { ...rest, HArray: [] }, { ...rest, HArray: null }]) {
      const json = await encrypt(parsePublicKey(JSON.stringify(bare)), new Uint8Array(1))
      expect(() => parseCiphertext(publicKey, json)).not.toThrow()
    }
  })
})

describe('no byte of what is signed can change', () => {
  test('a flipped bit anywhere in the wrapped key', () => {
    const inner = innerOf(original.ciphertext_json)
    const bits = fc.tuple(fc.nat(inner.length - 1), fc.nat(7))
    fc.assert(
      fc.property(bits, ([at, bit]) => {
        const flipped = String.fromCharCode(inner.charCodeAt(at) ^ (1 << bit))
        const json = withInner(inner.slice(0, at) + flipped + inner.slice(at + 1))
        expect(() => parseCiphertext(publicKey, json)).toThrow(TDH2Error)
      }),
      { numRuns: inForm(10, 1000) },
    )
  })

  test('a flipped bit anywhere in a decryption share', () => {
    const bits = fc.tuple(fc.nat(shareJson.length - 1), fc.nat(6))
    fc.assert(
      fc.property(bits, ([at, bit]) => {
        const flipped = String.fromCharCode(shareJson.charCodeAt(at) ^ (1 << bit))
        const json = shareJson.slice(0, at) + flipped + shareJson.slice(at + 1)
        expect(() => verifyShare(publicKey, ciphertext, parseDecryptionShare(json))).toThrow(
          TDH2Error,
        )
      }),
      { numRuns: inForm(10, 1000) },
    )
  })

  test('a byte moved between C and Label, which hash to the same', () => {
    const { C, Label } = JSON.parse(innerOf(original.ciphertext_json))
    const both = Buffer.concat([Buffer.from(C, 'base64'), Buffer.from(Label, 'base64')])
    for (const at of [31, 33, 0, 64]) {
      const change = { C: base64(both.subarray(0, at)), Label: base64(both.subarray(at)) }
      expect(() => parseCiphertext(publicKey, changedInner(change))).toThrow(
        'message and label must be 32B long',
      )
    }
  })

  test.each([31, 33])('a label of %d bytes, though its proof be right', size => {
    const wrapped = wrapKey(publicKey, new Uint8Array(32), new Uint8Array(size), randomScalar)
    expect(() => parseCiphertext(publicKey, withInner(wrapped))).toThrow(
      'message and label must be 32B long',
    )
  })

  test.each(['SymCtxt', 'Nonce'])('a flipped bit anywhere in %s', async field => {
    const fields = JSON.parse(original.ciphertext_json)
    const bytes = Buffer.from(fields[field], 'base64')
    const shares = original.decryption_shares_json.map(parseDecryptionShare)
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8))
      const json = JSON.stringify({ ...fields, [field]: base64(changed) })
      const parsed = parseCiphertext(publicKey, json)
      await expect(combine(parsed, shares, { threshold: 3 })).rejects.toThrow(
        'message authentication failed',
      )
    }
  })
})

describe('what was encrypted decrypts', () => {
  test('for any threshold, number of nodes, message, label and choice of shares', async () => {
    const dealings = fc
      .integer({ min: 1, max: 7 })
      .chain(nodes => fc.tuple(fc.integer({ min: 1, max: nodes }), fc.constant(nodes)))
    const order = fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6], { minLength: 7 })
    const messages = fc.uint8Array({ maxLength: 300 })
    const labels = fc.uint8Array({ minLength: 32, maxLength: 32 })
    await fc.assert(
      fc.asyncProperty(
        dealings,
        messages,
        labels,
        order,
        async (dealing, message, label, first) => {
          const [threshold, nodes] = dealing
          const keys = generateKeys({ threshold, nodes })
          const json = await encrypt(keys.publicKey, message, { label })
          const parsed = parseCiphertext(keys.publicKey, json)
          expect(parsed.label).toEqual(label)
          const made: DecryptionShare[] = first
            .flatMap(index => keys.shares[index] ?? [])
            .slice(0, threshold)
            .map(share => parseDecryptionShare(createShare(parsed, share)))
          for (const share of made) verifyShare(keys.publicKey, parsed, share)
          expect(await combine(parsed, made, { threshold })).toEqual(message)
          await expect(combine(parsed, made.slice(1), { threshold })).rejects.toThrow(
            'too few shares',
          )
        },
      ),
      { numRuns: 25 },
    )
  }, 20_000)

  test('with any platform’s WebCrypto', async () => {
    const { crypto } = globalThis
    const keys = generateKeys({ threshold: 1, nodes: 1 })
    const message = new TextEncoder().encode('grüezi')
    const json = await encrypt(keys.publicKey, message, { crypto: crypto as never })
    const parsed = parseCiphertext(keys.publicKey, json)
    const made = keys.shares.map(share => parseDecryptionShare(createShare(parsed, share)))
    for (const provider of [undefined, crypto as never])
      expect(
        await combine(parsed, made, {
          threshold: 1,
          ...(provider === undefined ? {} : { crypto: provider }),
        }),
      ).toEqual(message)
  })

  test('up to the longest message, which is still read', async () => {
    const keys = generateKeys({ threshold: 1, nodes: 1 })
    const message = new Uint8Array(768_000).fill(7)
    const parsed = parseCiphertext(keys.publicKey, await encrypt(keys.publicKey, message))
    const made = keys.shares.map(share => parseDecryptionShare(createShare(parsed, share)))
    const opened = await combine(parsed, made, { threshold: 1 })
    expect(Buffer.compare(opened, message)).toBe(0)
    await expect(encrypt(keys.publicKey, new Uint8Array(768_001))).rejects.toThrow('at most 768000')
  })

  test('and never twice to the same bytes', async () => {
    const message = new Uint8Array(4)
    const [one, other] = [await encrypt(publicKey, message), await encrypt(publicKey, message)]
    const secret = parsePrivateShare(set.private_shares_json[0] ?? '')
    expect(one).not.toBe(other)
    expect(createShare(ciphertext, secret)).not.toBe(createShare(ciphertext, secret))
  })
})
