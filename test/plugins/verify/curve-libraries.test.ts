import { randomBytes } from 'node:crypto'
import { beforeAll, describe, expect, test } from '@jest/globals'
import { secp256k1 } from '@noble/curves/secp256k1'
import { SigningKey } from 'ethers'
import fc from 'fast-check'
import { toBytes } from 'viem'
import {
  type CurveLibrary,
  loadCurveLibrary,
  loadNative,
  loadNoble,
  loadWasm,
} from '../../../plugins/verify/curve-libraries.js'
import { type Recovered, recoverSigners } from '../../../plugins/verify/recovery.js'
import { publishedReports } from '../../support/report/published-reports.js'
import {
  flip,
  isNativeHere,
  makeReport,
  ORDER,
  publishedSigners,
  signers,
  word,
} from '../../support/report/signed-reports.js'
import { inForm } from '../../support/tier.js'

type Recover = CurveLibrary['recover']

let noble: Recover
/** The other libraries. The binding of the package secp256k1 may be missing on this machine. */
const others = new Map<string, Recover>()
beforeAll(async () => {
  noble = await loadNoble()
  others.set('wasm', (await loadWasm()) as Recover)
  const native = await loadNative()
  if (native !== undefined) others.set('secp256k1', native)
})

test('the libraries are loaded that this machine can run', () => {
  expect([...others.keys()]).toEqual(isNativeHere ? ['wasm', 'secp256k1'] : ['wasm'])
})

const bytesOf = (value: bigint): Uint8Array => toBytes(word(value))
const digitsOf = (key: Uint8Array | undefined): string | undefined =>
  key && Buffer.from(key).toString('hex')
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
/** Numbers to which a recovery id of 2 or 3 adds the order without leaving the field. */
const small = fc.bigInt({ min: 0n, max: FIELD - ORDER })
const hashes = fc.oneof(fc.uint8Array({ minLength: 32, maxLength: 32 }), numbers.map(bytesOf))
const recoveryIDs = fc.oneof(fc.nat(3), fc.constantFrom(4, 26, 27, 28, 255))

describe('the curve libraries agree', () => {
  test('on invalid signatures, and on some valid ones', () => {
    const answers = { key: 0, none: 0, keyOfGreaterID: 0 }
    fc.assert(
      fc.property(
        hashes,
        fc.oneof({ arbitrary: numbers, weight: 4 }, { arbitrary: small, weight: 1 }),
        numbers,
        recoveryIDs,
        (hash, r, s, v) => {
          const pair = [bytesOf(r), bytesOf(s)] as const
          const ours = digitsOf(noble(hash, ...pair, v))
          for (const recover of others.values())
            expect(digitsOf(recover(hash, ...pair, v))).toBe(ours)
          answers[ours === undefined ? 'none' : v > 1 ? 'keyOfGreaterID' : 'key']++
        },
      ),
      { numRuns: inForm(250, 1000) },
    )
    expect(answers.key).toBeGreaterThan(inForm(2, 20))
    expect(answers.keyOfGreaterID).toBeGreaterThan(inForm(0, 5))
    expect(answers.none).toBeGreaterThan(inForm(10, 50))
  })

  test('on signatures and their signers', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.bigInt({ min: 1n, max: ORDER - 1n }),
        fc.boolean(),
        (hash, key, isMirrored) => {
          const { r, s, recovery } = secp256k1.sign(hash, bytesOf(key))
          const pair = [bytesOf(r), bytesOf(isMirrored ? ORDER - s : s)] as const
          const v = isMirrored ? 1 - recovery : recovery
          const whose = new SigningKey(word(key)).publicKey.slice(2)
          for (const recover of [noble, ...others.values()])
            expect(digitsOf(recover(hash, ...pair, v))).toBe(whose)
        },
      ),
      { numRuns: inForm(40, 200) },
    )
  })

  test('on the point at infinity, which is no key', () => {
    // With s k for a hash, s R less hash G is nothing.
    const k = 12_345n
    const { x, y } = secp256k1.ProjectivePoint.BASE.multiply(k).toAffine()
    const s = 678n
    const hash = bytesOf((s * k) % ORDER)
    for (const recover of [noble, ...others.values()]) {
      expect(recover(hash, bytesOf(x), bytesOf(s), Number(y & 1n))).toBeUndefined()
      expect(recover(hash, bytesOf(x), bytesOf(s), Number(1n - (y & 1n)))).toBeDefined()
    }
  })

  test('on the published reports', () => {
    const addresses = new Set(publishedSigners.signers)
    for (const { fullReport, signers: by } of publishedReports)
      for (const recover of [noble, ...others.values()])
        expect(recoverSigners(fullReport, addresses, { recover })).toEqual(by)
  })

  test('on the verdict of a report with another bit in its signatures', () => {
    const { fullReport } = makeReport()
    const addresses = new Set(signers.signers)
    const verdict = (changed: string, recover: Recover): Recovered =>
      recoverSigners(changed, addresses, { recover })
    // The words of r and s are the last ones, each list after its length.
    const words = (fullReport.length - 2) / 64
    const [r, s] = [words - 7, words - 3]
    for (let round = 0; round < inForm(15, 60); round++) {
      const [place = 0, bit = 0] = randomBytes(2)
      const at = place % 6 < 3 ? r + (place % 3) : s + (place % 3)
      const changed = flip(fullReport, 256 * at + bit)
      const ours = verdict(changed, noble)
      expect(ours).toHaveProperty('reason')
      for (const recover of others.values()) expect(verdict(changed, recover)).toEqual(ours)
    }
  })
})

test('the named library is loaded, and auto is the fastest one', async () => {
  for (const name of ['noble', 'wasm', ...(isNativeHere ? ['secp256k1'] : [])] as const)
    expect(await loadCurveLibrary(name as CurveLibrary['name'])).toMatchObject({ name })
  expect(await loadCurveLibrary('auto')).toMatchObject({
    name: isNativeHere ? 'secp256k1' : 'wasm',
  })
})

test('of WebAssembly there is one instance, whoever loads it', async () => {
  const [one, other] = await Promise.all([loadWasm(), loadWasm()])
  expect(one).toBe(other)
  expect(await loadCurveLibrary('wasm')).toMatchObject({ recover: one })
})
