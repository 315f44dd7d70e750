import { describe, expect, test } from '@jest/globals'
import type { SignerSet, Signers } from '../../plugins/verify/options.js'
import {
  ConformanceError,
  sampleDigest,
  sampleReport,
  sampleSigners,
  testSigners,
} from '../../testing/index.js'

const known = (configDigest: string): SignerSet[] =>
  configDigest === sampleDigest ? [{ ...sampleSigners, configDigest }] : []

describe('signers without a fault', () => {
  test('a set', async () => {
    expect(await testSigners(sampleSigners)).toEqual({ isLookup: false, lookupMs: 0 })
  })
  test('a function', async () => {
    const samples = [3, 7].map(version =>
      sampleReport({
        feedID: `0x000${version}${'ab'.repeat(30)}`,
        observationsTimestamp: 1_700_000_000,
        signed: true,
      }),
    )
    const result = await testSigners(async digest => known(digest), { samples })
    expect(result.isLookup).toBe(true)
  })
  test('a function that gives nothing for an unknown configuration', async () => {
    await testSigners(async digest => (digest === sampleDigest ? sampleSigners : undefined))
  })
})

let count = 0
const faults: readonly (readonly [rule: string, name: string, signers: () => Signers])[] = [
  [
    'verifies',
    'are of another network',
    () => ({
      ...sampleSigners,
      signers: sampleSigners.signers.map(each => each.replace('0x7', '0x6').replace('0x2', '0x3')),
    }),
  ],
  [
    'answers',
    'throw for an unknown configuration',
    () => async digest => {
      if (digest !== sampleDigest) throw new Error('404')
      return sampleSigners
    },
  ],
  ['unknown', 'give the same set for everything', () => async () => sampleSigners],
  [
    'stable',
    'change from call to call',
    () => async digest => known(digest).map(each => ({ ...each, f: 1, activeFrom: ++count })),
  ],
  [
    'shape',
    'have too few members',
    () => async digest =>
      digest === sampleDigest ? [{ signers: sampleSigners.signers.slice(0, 2), f: 1 }] : [],
  ],
  ['time', 'never answer', () => () => new Promise(() => undefined)],
]

describe('a fault is found', () => {
  for (const [rule, name, signers] of faults)
    test(`${rule}: signers that ${name}`, async () => {
      const thrown = await testSigners(signers(), rule === 'time' ? { patience: 100 } : {}).catch(
        (error: unknown) => error,
      )
      expect(thrown).toBeInstanceOf(ConformanceError)
      expect((thrown as ConformanceError).faults.map(each => each.rule)).toContain(rule)
    }, 30_000)
})

test('bad options are refused', async () => {
  await expect(testSigners(sampleSigners, { samples: [] })).rejects.toThrow(
    'samples must be an array of at least one report',
  )
})
