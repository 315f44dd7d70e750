import { beforeAll, describe, expect, test } from '@jest/globals'
import { AbiCoder } from 'ethers'
import {
  type CheckedProof,
  checkProof,
  createProof,
  type Proof,
  ProofError,
  type ProofFailure,
  type WindowEnds,
} from '../../proof/index.js'
import { sampleReport, sampleSigners } from '../../testing/reports.js'
import { createRandom, type Random } from '../support/random.js'
import { publishedReports } from '../support/report/published-reports.js'
import {
  clientOf,
  createHistory,
  type HistoryWindow,
  type SignedHistory,
} from '../support/report/signed-history.js'
import { inForm } from '../support/tier.js'

const feeds = [`0x0003${'4b'.repeat(30)}`, `0x1003${'4b'.repeat(30)}`] as const
const allEnds: readonly WindowEnds[] = [
  { open: 'from', straddling: 'clip' },
  { open: 'to', straddling: 'clip' },
  { open: 'from', straddling: 'whole' },
  { open: 'to', straddling: 'whole' },
]
const signers = sampleSigners
const histories = new Map<string, SignedHistory>()

beforeAll(() => {
  for (const feedID of feeds) histories.set(feedID, createHistory(feedID, 400, 3))
})

const historyOf = (feedID: string): SignedHistory => histories.get(feedID) as SignedHistory
const msOf = ({ second }: SignedHistory, time: number): number => (time * 1000) / second

/** The blob of a report by ethers, which knows nothing of this library. */
function readByEthers(fullReport: string): { from: number; to: number; price: bigint } {
  const coder = AbiCoder.defaultAbiCoder()
  const parts = coder.decode(
    ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32'],
    fullReport,
  )
  const types = ['bytes32', 'uint256', 'uint256', 'uint192', 'uint192', 'uint256', 'int192']
  const [, from, to, , , , price] = coder.decode(types, parts[1] as string)
  return { from: Number(from), to: Number(to), price: price as bigint }
}

/** The average over signed reports, computed another way: unit of time by unit of time. */
function averageByUnits(
  reports: readonly string[],
  { from, to }: { from: number; to: number },
  { open, straddling }: WindowEnds,
  step: number,
): { sum: bigint; duration: number } {
  const read = reports.map(readByEthers)
  const first = open === 'from' ? from + 1 : from
  const last = open === 'from' ? to : to - 1
  let sum = 0n
  let duration = 0
  if (straddling === 'whole') {
    for (const report of read) {
      if (report.to < first || report.from > last) continue
      for (let unit = report.from; unit <= Math.min(report.to, last); unit++) {
        sum += report.price
        duration++
      }
    }
    return { sum, duration }
  }
  for (let unit = first; unit <= last; unit += step) {
    const report = read.find(each => each.from <= unit && unit <= each.to)
    if (report === undefined) continue
    sum += report.price
    duration++
  }
  return { sum, duration }
}

/** Windows near a report that is not at the ends of the history, where a proof is possible. */
function pickWindow(history: SignedHistory, random: Random): { from: number; to: number } {
  const stored = history.windows.filter(({ report }) => report !== undefined)
  const first = (stored[2] as HistoryWindow).to + 1
  const last = (stored.at(-40) as HistoryWindow).from
  const from = random.pick(first, last - 1)
  const width = history.second === 1 ? random.pick(1, 20) : random.pick(1, 4000)
  return { from, to: Math.min(last, from + width) }
}

async function check(proof: Proof | string, given: object = {}): Promise<CheckedProof> {
  return checkProof(proof, { signers, ...given })
}

async function reasonOf(proof: unknown): Promise<ProofFailure | undefined> {
  try {
    await check(proof as Proof)
    return undefined
  } catch (error) {
    if (error instanceof ProofError) return error.reason
    throw error
  }
}

describe('proofs', () => {
  test('claim what a second computation gives, for random moments and windows', async () => {
    const random = createRandom(5)
    let holes = 0
    for (let round = 0; round < inForm(40, 10_000); round++) {
      const history = historyOf(random.of(feeds))
      const client = clientOf(history, msOf(history, history.end) + 60_000, random.pick(5, 100))
      const { feedID } = history
      const { from, to } = pickWindow(history, random)
      const isMoment = random.chance(0.3)
      const ends = random.of(allEnds)
      const options = isMoment ? { feedID, at: from } : { feedID, from, to, ends }
      const proof = await createProof(client, options)
      const checked = await check(JSON.stringify(proof))
      expect(checked.claim).toEqual(proof.claim)
      expect(checked.isComplete).toBe(proof.missing.length === 0)
      if (!checked.isComplete) holes++
      if (isMoment) {
        const window = history.windows.find(each => each.from <= from && from <= each.to)
        const price = window?.report === undefined ? undefined : window.price
        expect(checked.value).toBe(price)
      } else if (history.second === 1 || to - from < 200) {
        const { sum, duration } = averageByUnits(proof.reports, { from, to }, ends, 1)
        expect(proof.claim).toMatchObject({ sum: String(sum), duration })
        expect(checked.value).toBe(duration === 0 ? undefined : sum / BigInt(duration))
      }
      await client.close()
    }
    expect(holes).toBeGreaterThan(inForm(0, 5))
  })

  test('refuse every mutation, each with its reason', async () => {
    const random = createRandom(9)
    const counts = new Map<string, number>()
    for (let round = 0; round < inForm(8, 1000); round++) {
      const history = historyOf(random.of(feeds))
      const client = clientOf(history, msOf(history, history.end) + 60_000)
      const { from, to } = pickWindow(history, random)
      const { feedID } = history
      const proof = await createProof(client, { feedID, from, to, ends: random.of(allEnds) })
      await client.close()
      for (const [name, reasons, mutant] of mutations(proof, history, random)) {
        const reason = await reasonOf(mutant)
        expect([name, reasons]).toEqual([name, expect.arrayContaining([reason])])
        counts.set(name, (counts.get(name) ?? 0) + 1)
      }
    }
    // Each way was gone.
    expect([...counts.keys()].sort()).toEqual(
      [
        'another feed',
        'claim',
        'cut',
        'ends',
        'forged',
        'missing',
        're-dated',
        'removed',
        'repeated',
        'swapped',
      ].sort(),
    )
  })

  test('of a missing moment have the reports before and after it, and are refuted by a report', async () => {
    const history = historyOf(feeds[0])
    const client = clientOf(history, msOf(history, history.end) + 60_000)
    const hole = history.windows.find(
      ({ report }, index) => report === undefined && index > 20,
    ) as HistoryWindow
    const proof = await createProof(client, { feedID: feeds[0], at: hole.from })
    await client.close()
    expect(proof.claim).toEqual({ kind: 'price', at: hole.from, field: 'price', value: null })
    const checked = await check(proof)
    expect(checked).toMatchObject({ isComplete: false, value: undefined, reports: 2 })
    expect(checked.unproved.join(' ')).toMatch(/refutes the proof/)
    const windowsOf = (fullReport: string) => {
      const { from, to } = readByEthers(fullReport)
      return { from, to }
    }
    const [before, after] = proof.reports.map(windowsOf)
    expect(checked.edges).toEqual([{ before, after }])
    const witness = sampleReport({
      feedID: feeds[0],
      validFromTimestamp: hole.from,
      observationsTimestamp: hole.to,
      signed: true,
    })
    await expect(check(proof, { against: [witness.fullReport] })).rejects.toMatchObject({
      reason: 'refuted',
    })
    const [neighbour] = proof.reports as [string]
    await expect(check(proof, { against: [neighbour] })).resolves.toMatchObject({ reports: 2 })
    // Others' reports, and those of other feeds, count for nothing.
    const against = ['0x00', `${witness.fullReport.slice(0, -1)}1`, witness.fullReport]
    await expect(check(proof, { against: against.slice(0, 2) })).resolves.toMatchObject({
      witnesses: 0,
    })
    await expect(check(proof, { against })).rejects.toMatchObject({ reason: 'refuted' })
    await expect(check(proof, { complete: true })).rejects.toMatchObject({ reason: 'tiling' })
    await expect(check(proof, { feedID: feeds[1] })).rejects.toMatchObject({ reason: 'wrong-feed' })
    const field = 'price at 1 is 9\nproved'
    for (const each of [field, 'nativeFee', 'pryce'])
      expect(await reasonOf({ ...proof, claim: { ...proof.claim, field: each } })).toBe('malformed')
    const away = (): Promise<never> => Promise.reject(new Error('the source is away'))
    await expect(checkProof(proof, { signers: away })).rejects.toMatchObject({
      code: 'VERIFICATION',
      reason: 'signers-unavailable',
    })
    for (const reports of [proof.reports.slice(1), proof.reports.slice(0, 1)])
      expect(await reasonOf({ ...proof, reports })).toBe('ends')
  })

  test('of the published reports hold against their real signers', async () => {
    const network = {
      signers: [
        '0x6b23132dece4da06571ba9149e2986549cb5fb30',
        '0x72cce7298ae2f6e516be2f2343ebedf863548d12',
        '0x87abf51625b8587a8b331b305d026bb48772a20c',
        '0xdd3210a31d062cada9f37c69305032b7e5594e25',
      ],
      f: 1,
    }
    const digests = ['0x0006f9b5', '0x00090d9e']
    const ours = publishedReports.filter(({ fullReport }) =>
      digests.some(digest => fullReport.startsWith(digest)),
    )
    expect(ours.length).toBeGreaterThan(3)
    for (const { feedID, fullReport } of ours) {
      const { from, to } = readByEthers(fullReport)
      const proof = await createProof(
        {
          getReportsPage: async () => [] as never,
          getReportsBetween: (() => {
            const report = {
              feedID,
              fullReport,
              validFromTimestamp: from,
              observationsTimestamp: to,
            }
            return Object.assign(
              (async function* () {
                yield report
              })(),
              { missing: [] },
            )
          }) as never,
        },
        { feedID, at: to, ...(feedID.startsWith('0x000d') && { field: 'bestBid' }) },
      )
      const checked = await checkProof(proof, { signers: network })
      expect(checked.value).toBe(readByEthers(fullReport).price)
      await expect(check(proof)).rejects.toMatchObject({ reason: 'signature' })
    }
  })

  test('are refused when their form is wrong', async () => {
    const history = historyOf(feeds[0])
    const client = clientOf(history, msOf(history, history.end) + 60_000)
    const stored = history.windows.find(({ report }) => report !== undefined) as HistoryWindow
    const proof = await createProof(client, { feedID: feeds[0], at: stored.to })
    await client.close()
    const { claim } = proof
    const malformed: readonly (readonly [unknown, RegExp])[] = [
      ['{', /its text must be JSON/],
      [JSON.stringify(proof).replace('{', '{"version":1,'), /must have each field once/],
      [JSON.stringify(proof).replace('"at"', '"\\u0061t"'), /and no escapes/],
      [null, /proof must be an object, not null/],
      [{ ...proof, format: 'other' }, /format must be sluice-proof/],
      [{ ...proof, version: 3 }, /version must be 1 or 2/],
      [{ ...proof, version: 1 }, /neighbours must not be given in version 1/],
      [{ ...proof, neighbours: undefined }, /neighbours must be given in version 2/],
      [{ ...proof, neighbours: 'none' }, /neighbours must be a list of at most 2 reports/],
      [{ ...proof, neighbours: Array(3).fill(proof.reports[0]) }, /a list of at most 2 reports/],
      [{ ...proof, neighbours: [7] }, /neighbours\[0\] must be a text/],
      [{ ...proof, more: 1 }, /must not have the field "more"/],
      [{ ...proof, feedID: 'ETH' }, /feedID must be 0x/],
      [{ ...proof, reports: [] }, /reports must be a list of at least one/],
      [{ ...proof, reports: [7] }, /reports\[0\] must be a text/],
      [{ ...proof, claim: { ...claim, kind: 'guess' } }, /claim.kind must be/],
      [{ ...proof, claim: { ...claim, at: -1 } }, /claim.at must be a whole number/],
      [{ ...proof, claim: { ...claim, value: '01' } }, /claim.value must be a whole number/],
      [{ ...proof, claim: { ...claim, field: 'toString' } }, /claim.field must name/],
      [{ ...proof, missing: [{ from: 1 }] }, /to must be a whole number/],
    ]
    for (const [given, message] of malformed) {
      await expect(check(given as Proof)).rejects.toThrow(message)
      expect(await reasonOf(given)).toBe('malformed')
    }
    // Editors add a byte order mark, and break lines.
    expect((await check(`\uFEFF${JSON.stringify(proof, null, 2)}\n`)).claim).toEqual(claim)
    expect(await reasonOf({ ...proof, reports: Array(10_001).fill('0x') })).toBe('too-large')
    expect(await reasonOf(' '.repeat(33_554_433))).toBe('too-large')
    const big = 'f'.repeat(5_000_000)
    expect(await reasonOf({ ...proof, reports: Array(7).fill(big) })).toBe('too-large')
  })

  test('are not made of reports that contradict each other', async () => {
    const feedID = feeds[0]
    const signed = (from: number, to: number, price: bigint) =>
      sampleReport({
        feedID,
        validFromTimestamp: from,
        observationsTimestamp: to,
        values: [price, price, price],
        signed: true,
      })
    const at = 1_700_000_000
    const history = historyOf(feedID)
    const other = signed(at, at, 2n)
    const windows = [signed(at, at, 1n), other].map(report => ({
      from: at,
      to: report.observationsTimestamp,
      price: 0n,
      report,
      storedAt: 0,
    }))
    const client = clientOf({ ...history, windows }, msOf(history, at) + 60_000)
    await expect(createProof(client, { feedID, at })).rejects.toMatchObject({
      reason: 'order',
      message: expect.stringContaining('the service has reports that contradict each other'),
    })
    await client.close()
  })

  test('are made for no future, no empty window, and no unknown field', async () => {
    const history = historyOf(feeds[0])
    const client = clientOf(history, msOf(history, history.end) + 500)
    const [feedID] = feeds
    const ends: WindowEnds = { open: 'from', straddling: 'clip' }
    const { from, to } = pickWindow(history, createRandom(1))
    const cases: readonly (readonly [object, RegExp])[] = [
      [{ feedID, from, to }, /^ends is required/],
      [{ feedID, from, to: from, ends }, /^to must be after from/],
      [{ feedID, from, to, ends: { open: 'both' } }, /^ends.open must be 'from' or 'to'/],
      [{ feedID, at: from, field: 'pryce' }, /^field must name an exact number.*there is .*price/],
      [{ feedID, at: 1.5 }, /^at must be a whole number/],
      [{ feedID, at: from * 1000 }, /^at must be in seconds/],
      [{ feedID, from, to: to * 1000, ends }, /^to must be in seconds/],
      [{ feedID, at: undefined }, /^either at, or from and to, must be given/],
      [{ feedID, at: from, from, to, ends }, /^either at, or from and to, must be given/],
      [{ feedID, at: undefined, from, to, ends: 1 }, /^ends takes an object/],
      [{ feedID: 'ETH/USD', at: 1 }, /^feedID must be 0x/],
    ]
    for (const [options, message] of cases)
      await expect(createProof(client, options as never)).rejects.toThrow(message)
    await expect(createProof(client, { feedID, at: history.end + 30 })).rejects.toMatchObject({
      code: 'NO_REPORT',
      reason: 'not-yet',
    })
    await client.close()
  })
})

type Mutation = readonly [name: string, reasons: readonly ProofFailure[], mutant: unknown]

/** Ways to damage a proof. Each has to be refused, for one of its reasons. */
function* mutations(proof: Proof, history: SignedHistory, random: Random): Generator<Mutation> {
  const { reports, claim } = proof
  const index = random.pick(0, reports.length - 1)
  const report = reports[index] as string
  const without = reports.filter((_, at) => at !== index)
  const put = (other: string): string[] => reports.map((each, at) => (at === index ? other : each))
  yield ['removed', ['tiling', 'ends', 'malformed'], { ...proof, reports: without }]
  yield [
    'repeated',
    ['order'],
    { ...proof, reports: [...reports.slice(0, index), report, ...reports.slice(index)] },
  ]
  if (reports.length > 1) {
    const swapped = [...reports]
    const next = (index + 1) % reports.length
    swapped[index] = reports[next] as string
    swapped[next] = report
    yield ['swapped', ['order'], { ...proof, reports: swapped }]
    yield [
      'cut',
      ['tiling', 'ends'],
      { ...proof, reports: random.chance(0.5) ? reports.slice(1) : reports.slice(0, -1) },
    ]
  }
  const digit = random.pick(2 + 64 * 8 + 64 * 6, 2 + 64 * 8 + 64 * 7 - 1)
  const flipped = ((Number.parseInt(report[digit] as string, 16) + 1) % 16).toString(16)
  yield [
    'forged',
    ['signature', 'malformed'],
    { ...proof, reports: put(report.slice(0, digit) + flipped + report.slice(digit + 1)) },
  ]
  const { from, to } = readByEthers(report)
  const date = (time: number): string => time.toString(16).padStart(64, '0')
  const later = report.replace(date(from) + date(to), date(from + 1) + date(to + 1))
  yield ['re-dated', ['signature', 'order', 'tiling', 'ends'], { ...proof, reports: put(later) }]
  const other = historyOf(feeds.find(id => id !== history.feedID) as string)
  const foreign = other.windows.find(window => window.report !== undefined)?.report?.fullReport
  yield ['another feed', ['wrong-feed'], { ...proof, reports: put(foreign as string) }]
  yield [
    'claim',
    ['value'],
    { ...proof, claim: { ...claim, value: String(BigInt(claim.value ?? 0) + 1n) } },
  ]
  yield [
    'missing',
    ['tiling'],
    {
      ...proof,
      missing: [
        ...proof.missing,
        {
          from: claim.kind === 'average' ? claim.to + 1 : 0,
          to: claim.kind === 'average' ? claim.to + 1 : 0,
        },
      ],
    },
  ]
  if (claim.kind === 'average') {
    const second = history.second * random.pick(61, 200)
    yield [
      'ends',
      ['ends', 'tiling', 'value'],
      { ...proof, claim: { ...claim, to: claim.to + second } },
    ]
  }
}
