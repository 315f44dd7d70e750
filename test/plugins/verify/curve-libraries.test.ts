import { beforeAll, describe, expect, test } from '@jest/globals'
import { secp256k1 } from '@noble/curves/secp256k1'
import fc from 'fast-check'
import { toBytes } from 'viem'
import {
  type CurveLibrary,
  loadCurveLibrary,
  loadNative,
  loadNoble,
} from '../../../plugins/verify/recovery.js'
import { isNativeHere, ORDER, word } from '../../support/report/signed-reports.js'

// The title names what is skipped: the binding of the optional peer is not installed on this machine.
const both = isNativeHere ? describe : describe.skip

let noble: CurveLibrary['recover']
beforeAll(async () => {
  noble = await loadNoble()
})

const bytesOf = (value: bigint): Uint8Array => toBytes(word(value))
const MAX = 2n ** 256n - 1n
const FIELD = 2n ** 256n - 2n ** 32n - 977n
const edges = [
  0n,
  1n,
  2n,
  ORDER / 2n,
  ORDER / 2n + 1n,
  ORDER - 1n,
  ORDER,
  ORDER + 1n,
  FIELD - 1n,
  FIELD,
  MAX,
]

const numbers = fc.oneof(
  { arbitrary: fc.constantFrom(...edges), weight: 1 },
  { arbitrary: fc.bigInt({ min: 0n, max: MAX }), weight: 3 },
)
const hashes = fc.oneof(fc.uint8Array({ minLength: 32, maxLength: 32 }), numbers.map(bytesOf))
const recoveryIDs = fc.oneof(fc.nat(3), fc.constantFrom(4, 26, 27, 28, 255))

both('the curve libraries agree', () => {
  test('on invalid signatures, and on some valid ones', async () => {
    const native = await loadNative()
    const answers = { key: 0, none: 0 }
    fc.assert(
      fc.property(hashes, numbers, numbers, recoveryIDs, (hash, r, s, v) => {
        const pair = [bytesOf(r), bytesOf(s)] as const
        const ours = noble(hash, ...pair, v)
        const theirs = native?.(hash, ...pair, v)
        expect(theirs && Buffer.from(theirs).toString('hex')).toBe(
          ours && Buffer.from(ours).toString('hex'),
        )
        answers[ours === undefined ? 'none' : 'key']++
      }),
      { numRuns: 600 },
    )
    expect(answers.key).toBeGreaterThan(20)
    expect(answers.none).toBeGreaterThan(50)
  })

  test('on signatures and their signers', async () => {
    const native = await loadNative()
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.bigInt({ min: 1n, max: ORDER - 1n }),
        fc.boolean(),
        (hash, key, isMirrored) => {
          const { r, s, recovery } = secp256k1.sign(hash, bytesOf(key))
          const pair = [bytesOf(r), bytesOf(isMirrored ? ORDER - s : s)] as const
          const v = isMirrored ? 1 - recovery : recovery
          const whose = Buffer.from(secp256k1.getPublicKey(bytesOf(key), false))
          for (const recover of [noble, native])
            expect(Buffer.from(recover?.(hash, ...pair, v) ?? []).equals(whose)).toBe(true)
        },
      ),
      { numRuns: 200 },
    )
  })

  test('on the point at infinity, which is no key', async () => {
    const native = await loadNative()
    // With s k for a hash, s R less hash G is nothing.
    const k = 12_345n
    const { x, y } = secp256k1.ProjectivePoint.BASE.multiply(k).toAffine()
    const s = 678n
    const hash = bytesOf((s * k) % ORDER)
    for (const recover of [noble, native])
      expect(recover?.(hash, bytesOf(x), bytesOf(s), Number(y & 1n))).toBeUndefined()
    for (const recover of [noble, native])
      expect(recover?.(hash, bytesOf(x), bytesOf(s), Number(1n - (y & 1n)))).toBeDefined()
  })

  test('and the named one is loaded', async () => {
    const hash = bytesOf(5n)
    const pair = [bytesOf(1n), bytesOf(1n)] as const
    // libsecp256k1 gives back the same bytes each time, noble new ones.
    const isNative = async (choice: 'auto' | 'noble' | 'secp256k1'): Promise<boolean> => {
      const library = await loadCurveLibrary(choice)
      const [first, second] = [0, 1].map(() => library?.recover(hash, ...pair, 0))
      return first === second
    }
    expect(await isNative('noble')).toBe(false)
    expect(await isNative('secp256k1')).toBe(true)
    expect(await isNative('auto')).toBe(true)
  })
})
