import { createPublicKey, diffieHellman, generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { readVectors } from '@sluice/test-support/files.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import { ValidationError } from 'sluice/core'
import { box, boxKeys, isPublicKey, openBox, openSealed, seal } from 'sluice/internal'
import nacl from 'tweetnacl'
import { createRemoteRuntime, startEnclaveServer } from '../../index.js'
import { readEnvelope } from '../../remote/protocol.js'
import { createVault } from '../../vault/create-vault.js'

const vectors = readVectors<{
  readonly lowOrder: readonly string[]
  readonly onlyWithTheTopBit: readonly string[]
}>('x25519-low-order.json')

/** Each as it is published, and with the top bit the other way round. */
const points = (digits: readonly string[]): [digits: string, key: Uint8Array][] =>
  digits.flatMap(text => {
    const key = Uint8Array.from(Buffer.from(text, 'hex'))
    const other = key.map((byte, at) => (at === 31 ? byte ^ 0x80 : byte))
    return [key, other].map(
      each => [Buffer.from(each).toString('hex'), each] as [string, Uint8Array],
    )
  })

const lowOrder = points(vectors.lowOrder)
const others = points(vectors.onlyWithTheTopBit)
const keys = boxKeys()
const message = new Uint8Array([1, 2, 3])
const sealed = seal(message, keys.publicKey)
const refusal = 'must not be a point of low order: anybody could open a box sealed to it'

const { privateKey } = generateKeyPairSync('x25519')
/** The platform's own product, which fails where it is zero. */
const shareWith = (key: Uint8Array): Buffer => {
  const x = Buffer.from(key).toString('base64url')
  const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x }, format: 'jwk' })
  return diffieHellman({ privateKey, publicKey })
}

/** A box that anybody can make, since the shared secret of a point of low order is zero for all. */
function forge(nonce: Uint8Array): Uint8Array {
  const { crypto_core_hsalsa20 } = (
    nacl as unknown as { lowlevel: { crypto_core_hsalsa20: (...bytes: Uint8Array[]) => void } }
  ).lowlevel
  const sigma = new TextEncoder().encode('expand 32-byte k')
  const key = new Uint8Array(32)
  crypto_core_hsalsa20(key, new Uint8Array(16), new Uint8Array(32), sigma)
  return Uint8Array.from([...nonce, ...nacl.secretbox(message, nonce, key)])
}

describe('a public key', () => {
  test.each(lowOrder)('%s is rejected, as what it shares is zero', (_, key) => {
    expect(() => shareWith(key)).toThrow()
    expect(isPublicKey(key)).toBe(false)
    for (const work of [() => seal(message, key), () => box(message, key, keys)])
      expect(work).toThrow(new ValidationError(`recipient ${refusal}`))
  })

  test.each(others)('%s is one, as what it shares is not zero', (_, key) => {
    expect(shareWith(key)).toHaveLength(32)
    expect(isPublicKey(key)).toBe(true)
  })

  test('is any other of 32 bytes', () => {
    for (let attempt = 0; attempt < 3; attempt++)
      expect(isPublicKey(boxKeys().publicKey)).toBe(true)
    for (const length of [0, 31, 33])
      expect(isPublicKey(new Uint8Array(length).fill(9))).toBe(false)
  })
})

test.each(lowOrder.slice(4, 6))('nothing opens that is said to come from %s', (_, key) => {
  const forged = forge(new Uint8Array(24).fill(7))
  expect(nacl.box.open(forged.subarray(24), forged.subarray(0, 24), key, keys.secretKey)).toEqual(
    message,
  )
  expect(openBox(forged, key, keys)).toBeUndefined()
  expect(openSealed(Uint8Array.from([...key, ...sealed.subarray(32)]), keys)).toBeUndefined()
})

test('no key of low order is pinned, known as a caller, answered or given a share', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-low-order-'))
  try {
    const vault = await createVault(directory, { owner: 'ab'.repeat(20), holders: 1 })
    const name = { key: 'apiKey', namespace: 'main', owner: vault.owner }
    await vault.put({ key: 'apiKey' }, 'sk-live', { policy: 'anywhere' })
    for (const [digits, key] of lowOrder.slice(4, 6)) {
      const invalid = (field: string) => ({ code: 'VALIDATION', message: `${field} ${refusal}` })
      const released = vault.holders[0]?.release(name, key) as Promise<unknown>
      expect(await failureOf(released)).toMatchObject(invalid('recipient'))
      const serving = startEnclaveServer({
        vault: directory,
        secretKey: 'cd'.repeat(32),
        callers: { [digits]: vault.owner },
      })
      expect(await failureOf(serving)).toMatchObject(invalid('callers: each key'))
      const remote = {
        url: 'http://127.0.0.1:1',
        enclavePublicKey: digits,
        callerSecretKey: 'cd'.repeat(32),
      }
      expect(() => createRemoteRuntime(remote)).toThrow(`enclavePublicKey ${refusal}`)
      const enclave = 'ef'.repeat(32)
      const asked = {
        version: 2,
        enclave,
        id: 'ab'.repeat(16),
        issuedAt: 1,
        replyTo: digits,
        request: {},
      }
      expect(() => readEnvelope(JSON.stringify(asked), enclave)).toThrow(
        'replyTo is a point of low order',
      )
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})
