import { afterEach, describe, expect, test } from '@jest/globals'
import { concat, keccak256, recoverAddress } from 'ethers'
import type { SignerSet, Signers, UnverifiedReport } from '../../index.js'
import { onchainSigners } from '../../plugins/verify/onchain/index.js'
import { readContext } from '../../report/full-report.js'
import type { ConformanceError } from '../../testing/faults.js'
import { sampleDigest, sampleReport, sampleSigners } from '../../testing/reports.js'
import { testSigners } from '../../testing/test-signers.js'
import { startChain } from '../support/ethereum/chain.js'
import { connectViem, setOf } from '../support/ethereum/reading.js'
import { publishedReports } from '../support/report/published-reports.js'
import { makeReport, signers as ours, publishedSigners } from '../support/report/signed-reports.js'
import { failureOf, pause } from '../support/waiting.js'
import { documentedRules } from './documented-rules.js'
import { inVirtualTime } from './in-virtual-time.js'

/** A timer that a source has left. */
let started: NodeJS.Timeout | undefined
afterEach(() => clearInterval(started))

const named: SignerSet = { ...sampleSigners, configDigest: sampleDigest }
const other: SignerSet = { ...sampleSigners, configDigest: `0x0009${'33'.repeat(30)}` }
const ofSample = async (digest: string): Promise<SignerSet | undefined> =>
  digest === sampleDigest ? named : undefined

describe('signers without a fault', () => {
  test('the set of the samples', async () => {
    expect(await testSigners(sampleSigners)).toEqual({ calls: 0 })
    await testSigners(named)
  })

  test('several sets', () => testSigners([other, { ...named, activeFrom: 1_700_000_000 }]))

  const sources: readonly (readonly [string, Signers])[] = [
    ['none of other configurations', ofSample],
    ['null', async digest => (await ofSample(digest)) ?? null],
    ['an empty list', async digest => [named].filter(each => each.configDigest === digest)],
    ['all it has', async () => [other, named]],
    ['one set for everything', async () => sampleSigners],
    [
      'sets that end an hour after the call',
      async digest =>
        digest === sampleDigest
          ? { ...named, activeUntil: Date.now() / 1000 + 3600 + Math.random() }
          : undefined,
    ],
  ]
  test.each(sources)('a function that gives %s', async (_name, signers) => {
    const { calls } = await testSigners(signers)
    expect(calls).toBe(8)
  })

  test('samples of their own', async () => {
    await testSigners(ours, { samples: [makeReport(), makeReport({ resolution: 'ms' })] })
    await testSigners(publishedSigners, { samples: publishedReports.map(toSample) })
  })

  test('those of a chain', async () => {
    const chain = await startChain()
    try {
      for (const configDigest of new Set(publishedReports.map(each => each.configDigest)))
        await chain.setConfig(setOf(configDigest, publishedSigners))
      const node = await chain.startNode()
      const source = onchainSigners({ client: connectViem(node.url), verifier: chain.proxy })
      const { calls } = await testSigners(source, { samples: publishedReports.map(toSample) })
      expect(calls).toBe(6 * publishedReports.length + 2)
    } finally {
      chain.close()
    }
  })
})

function toSample({ feedID, fullReport }: { feedID: string; fullReport: string }) {
  return { feedID, fullReport }
}

/** Trusts whoever has signed a report. */
async function recover(_digest: string, report: UnverifiedReport): Promise<SignerSet> {
  const { fullReport, feedID } = report
  const { signatures } = readContext(fullReport, feedID)
  const word = (from: number, to = from + 1): string =>
    `0x${fullReport.slice(2 + 64 * from, 2 + 64 * to)}`
  const blob = Number(word(7)) / 32
  const hash = keccak256(concat([keccak256(word(8, 8 + blob)), word(0, 3)]))
  const found = signatures.map(({ r, s, v }) => {
    try {
      return recoverAddress(hash, { r, s, v: 27 + v })
    } catch {
      return `0x${'77'.repeat(20)}`
    }
  })
  return { signers: [...found, `0x${'11'.repeat(20)}`, `0x${'22'.repeat(20)}`], f: 1 }
}

let running = 0
let count = 0
const growing: string[] = []

const faults: readonly (readonly [string, string, unknown])[] = [
  ['shape', 'are missing', undefined],
  ['shape', 'are a text', 'signers'],
  ['shape', 'are too few', { signers: sampleSigners.signers, f: 2 }],
  ['shape', 'are no sets', []],
  [
    'promise',
    'throw instead of rejecting',
    () => {
      throw new Error('no')
    },
  ],
  ['promise', 'are returned at once', () => sampleSigners],
  [
    'answers',
    'reject for a configuration that they have',
    async () => {
      throw new Error('the database is away')
    },
  ],
  ['answer', 'are addresses without a set', async () => sampleSigners.signers],
  ['answer', 'have no f', async () => ({ signers: sampleSigners.signers })],
  ['verifies', 'are none', async () => undefined],
  ['verifies', 'are others', ours],
  ['verifies', 'have ended', { ...sampleSigners, activeUntil: 1_700_000_000 }],
  [
    'unknown',
    'reject for an unknown configuration',
    async (digest: string) => {
      if (digest !== sampleDigest) throw new Error('404')
      return named
    },
  ],
  [
    'unknown',
    'know every configuration',
    async (configDigest: string) => ({ ...named, configDigest }),
  ],
  [
    'stable',
    'are others every second time',
    async () =>
      count++ % 2 === 0 ? sampleSigners : { ...sampleSigners, configDigest: sampleDigest },
  ],
  [
    'concurrent',
    'answer one call at a time',
    async () => {
      if (running++ > 0) throw new Error('busy')
      await pause(2)
      running = 0
      return sampleSigners
    },
  ],
  [
    'unchanged',
    'fill one list',
    async () => {
      growing.length = 0
      growing.push(...sampleSigners.signers)
      if (count++ % 2 === 0) growing.reverse()
      return { signers: growing, f: 1 }
    },
  ],
  [
    'argument',
    'change the report',
    async (_digest: string, report: { feedID: string }) => {
      report.feedID = report.feedID.slice(2)
      return sampleSigners
    },
  ],
  ['altered', 'are whoever has signed', recover],
  ['time', 'never answer', () => new Promise(() => undefined)],
  [
    'timers',
    'are read again each minute',
    async () => {
      started ??= setInterval(() => undefined, 60_000)
      return sampleSigners
    },
  ],
]

describe('a fault is found', () => {
  test.each(faults)('%s: signers that %s', async (rule, _name, signers) => {
    const test = () => testSigners(signers as Signers)
    // What never answers is waited for in virtual time.
    const error = await failureOf(rule === 'time' ? inVirtualTime(test) : test())
    expect(error).toMatchObject({ name: 'ConformanceError', code: 'CONFORMANCE' })
    const { faults } = error as unknown as ConformanceError
    expect(faults.map(each => each.rule)).toEqual([rule])
  })

  test('a message says what was found, and where', async () => {
    const error = await failureOf(testSigners(async () => undefined))
    expect(error.message).toMatch(
      /^signers broke a rule:\n {2}verifies: rejected with ReportVerificationError \(VERIFICATION\): .* no signers are known for configDigest 0x00095a\w+ \(samples\[0\]\)$/,
    )
  })
})

describe('options', () => {
  const feedID = `0x0003${'ab'.repeat(30)}`
  const unsigned = sampleReport({ feedID, observationsTimestamp: 1_700_000_000 })
  test.each([
    [{ samples: [] }, 'samples must hold at least one report'],
    [{ samples: 5 }, 'samples must be a list of reports, not number'],
    [{ samples: [unsigned] }, 'samples[0].fullReport must be signed: it has no signatures'],
    [{ samples: [{ ...unsigned, fullReport: '0x' }] }, /samples\[0\]\.fullReport must be a report/],
    [{ samples: [{ feedID: 'x', fullReport: '0x' }] }, 'samples[0].feedID must be 0x and 64'],
    [{ sample: unsigned }, "unknown option 'sample' of testSigners"],
  ])('%p', async (options, message) => {
    const error = await failureOf(testSigners(sampleSigners, options as never))
    expect(error).toMatchObject({ code: 'VALIDATION' })
    expect(error.message).toMatch(message)
  })
})

test('every rule of the docs has a fault that breaks it', () => {
  const planted = faults.flatMap(([rules]) => rules.split(' '))
  expect(documentedRules('Signers')).toEqual([...new Set([...planted])].sort())
})
