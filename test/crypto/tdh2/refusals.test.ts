import { describe, expect, test } from '@jest/globals'
import { isStreamsError } from '../../../core/errors.js'
import {
  type Ciphertext,
  combine,
  type DecryptionShare,
  encrypt,
  generateKeys,
  type PublicKey,
  parseCiphertext,
  parseDecryptionShare,
  parsePrivateShare,
  parsePublicKey,
  verifyShare,
} from '../../../crypto/tdh2/index.js'
import { caseOf, type Negative, reference, setOf } from '../../support/crypto/tdh2-reference.js'

const set = setOf('3of5')
const original = caseOf(set, 'short')
const publicKey = parsePublicKey(set.public_key_json)
const ciphertext = parseCiphertext(publicKey, original.ciphertext_json)
const shares = original.decryption_shares_json.map(parseDecryptionShare)
const threshold = 3

function pick(...indexes: readonly number[]): DecryptionShare[] {
  return indexes.flatMap(index => shares[index] ?? [])
}

async function open(from: Ciphertext, chosen: readonly DecryptionShare[]): Promise<string> {
  const plaintext = await combine(from, chosen, { threshold })
  return Buffer.from(plaintext).toString('base64')
}

/** What an attempt comes to: a word for success, the message of a TDH2Error. Any other error is thrown on. */
async function outcomeOf(attempt: () => unknown): Promise<string> {
  try {
    const result = await attempt()
    return typeof result === 'string' ? result : 'done'
  } catch (error) {
    if (isStreamsError(error, 'TDH2')) return error.message
    throw error
  }
}

describe('a public key', () => {
  const fields = JSON.parse(set.public_key_json)
  const base = ['6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296']
    .concat('4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5')
    .join('')
  const g = Buffer.from(`04${base}`, 'hex').toString('base64')

  test.each([
    [
      'the base point',
      { G_bar: g },
      'the public key is rejected: G_bar must not be the base point',
    ],
    ['H', { G_bar: fields.H }, 'the public key is rejected: G_bar must not be H'],
    [
      'H, in an H that is changed',
      { H: fields.G_bar },
      'the public key is rejected: G_bar must not be H',
    ],
  ])('whose second generator is %s is refused', async (_, change, message) => {
    expect(await outcomeOf(() => parsePublicKey(JSON.stringify({ ...fields, ...change })))).toBe(
      message,
    )
  })

  test('whose second generator is any other point is read', async () => {
    const [first] = fields.HArray
    for (const change of [{}, { G_bar: first }, { H: first }, { HArray: [fields.G_bar, g] }])
      expect(await outcomeOf(() => parsePublicKey(JSON.stringify({ ...fields, ...change })))).toBe(
        'done',
      )
  })
})

/** These cases are told in words, not bytes. */
const changes: Readonly<Record<string, object>> = {
  untouched: {},
  'H replaced (ciphertext verification does not use H)': {
    H: JSON.parse(set.public_key_json).HArray[0],
  },
  'HArray truncated to one': { HArray: [JSON.parse(set.public_key_json).HArray[0]] },
  'H infinity': { H: Buffer.alloc(65).toString('base64') },
  'V equal to the order': { V: Buffer.from(reference.meta.order_hex, 'hex').toString('base64') },
  'V zero': { V: Buffer.alloc(32).toString('base64') },
}

function changed(json: string, name: string): string {
  const change = changes[name]
  if (change === undefined) throw new Error(`what is ${name}?`)
  return JSON.stringify({ ...JSON.parse(json), ...change })
}

/** Where we refuse what the reference takes, and why. */
const stricter: Readonly<Record<string, string>> = {
  'json: inner field names in other case': 'C is missing',
  'json: bytes as array of numbers': 'Nonce must be base64 text',
  'H infinity': 'H: the point at infinity is not allowed',
  'V zero': 'V: it is zero',
  // The reference finds these out when it decrypts.
  'Nonce 11 bytes': 'nonce must have 12B',
  'json: Nonce missing': 'Nonce is missing',
  'SymCtxt empty': 'SymCtxt is shorter than its tag',
}

/** Where our words are not the last ones of the reference’s. */
const otherWords: Readonly<Record<string, string>> = {
  'U infinity as 65 zero bytes': 'U: the point at infinity is not allowed',
  'U_bar infinity as 65 zero bytes': 'U_bar: the point at infinity is not allowed',
  'json: trailing data': 'it is not JSON',
  'json: base64 without padding': 'SymCtxt must be base64 text',
  'json: {}': 'TDH2Ctxt is missing',
}

/** The rule the reference names: what is behind the last colon of its error, but with the name of a group. */
function ruleOf(negative: Negative, result: string): string {
  const rule = otherWords[negative.name] ?? /[^:]+(: "\w*")?$/.exec(result)?.[0] ?? ''
  return rule.trim()
}

async function expectOutcome(
  negative: Negative,
  theirs: string | undefined,
  attempt: () => unknown,
): Promise<boolean> {
  const strict = stricter[negative.name]
  const ours = await outcomeOf(attempt)
  if (strict !== undefined) {
    expect(ours).toContain(strict)
    return false
  }
  if (theirs === 'OK') {
    expect(['done', original.plaintext_b64]).toContain(ours)
    return true
  }
  expect(ours).toContain(ruleOf(negative, theirs ?? ''))
  return false
}

function negativesOf(kind: string): Negative[] {
  return reference.negative_3of5_short.filter(negative => negative.kind === kind)
}

describe('what the reference refuses is rejected, and what it takes is taken', () => {
  test('there are cases of every kind', () => {
    const kinds = ['ciphertext', 'share', 'aggregate', 'public-key', 'private-share', 'keygen']
    expect(kinds.flatMap(negativesOf)).toHaveLength(44)
    expect(reference.negative_3of5_short).toHaveLength(44)
  })

  test.each(negativesOf('ciphertext'))('ciphertext: $name', async negative => {
    const { ciphertext: json = '', unmarshal_verify: theirs } = negative
    const parse = (): Ciphertext => parseCiphertext(publicKey, json)
    if (!(await expectOutcome(negative, theirs, parse))) return
    const combined = negative.aggregate_with_valid_3_shares_of_the_original
    await expectOutcome(negative, combined, () => open(parse(), pick(0, 2, 4)))
  })

  test.each(negativesOf('share'))('decryption share: $name', async negative => {
    const { share: json = '' } = negative
    const parse = (): DecryptionShare => parseDecryptionShare(json)
    if (!(await expectOutcome(negative, negative.unmarshal, parse))) return
    await expectOutcome(negative, negative.verify_share, () =>
      verifyShare(publicKey, ciphertext, parse()),
    )
    const combined = negative.aggregate_unverified_with_valid_shares_0_and_2?.replace(
      /^.*not enough good public shares.*$/,
      'too few shares',
    )
    await expectOutcome(negative, combined, () =>
      open(ciphertext, [...pick(0), parse(), ...pick(2)]),
    )
  })

  test.each(negativesOf('aggregate'))('combining: $name', async negative => {
    const indexes = negative.share_indexes as unknown as readonly number[]
    const theirs = negative.core_combine_k3?.replace(
      /^.*not enough good public shares.*$/,
      'too few shares',
    )
    await expectOutcome(negative, theirs, () => open(ciphertext, pick(...indexes)))
  })

  test.each(negativesOf('public-key'))('public key: $name', async negative => {
    const json = changed(set.public_key_json, negative.name)
    const parse = (): PublicKey => parsePublicKey(json)
    if (!(await expectOutcome(negative, negative.unmarshal, parse))) return
    expect(negative.encrypt).toBe('OK')
    const encrypted = await encrypt(parse(), new Uint8Array(3))
    expect(() => parseCiphertext(publicKey, encrypted)).not.toThrow()
    await expectOutcome(negative, negative.verify_3of5_short_ciphertext, () =>
      parseCiphertext(parse(), original.ciphertext_json),
    )
    await expectOutcome(negative, negative.verify_share_1, () =>
      verifyShare(parse(), ciphertext, shares[1] as DecryptionShare),
    )
  })

  test.each(negativesOf('private-share'))('private share: $name', async negative => {
    const json = changed(set.private_shares_json[0] ?? '', negative.name)
    await expectOutcome(negative, negative.unmarshal, () => parsePrivateShare(json))
  })

  test.each(negativesOf('keygen'))('key generation: $name', negative => {
    const rule = 'threshold is higher than total number of nodes'
    expect(negative.result).toContain(rule)
    expect(() => generateKeys({ threshold: 3, nodes: 2 })).toThrow(
      expect.objectContaining({ code: 'VALIDATION', message: expect.stringContaining(rule) }),
    )
  })
})
