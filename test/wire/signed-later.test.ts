import { afterEach, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { createClient, defaultPreset } from '../../index.js'
import { candlesOf } from '../../plugins/candles/index.js'
import {
  type AveragedReport,
  checkProof,
  createProof,
  type Proof,
  type ProofError,
  twap,
} from '../../proof/index.js'
import type { Report } from '../../report/report.js'
import { until } from '../support/waiting.js'

const [eth, btc] = [`0x0003${'e1'.repeat(30)}`, `0x0003${'b7'.repeat(30)}`] as const
/** The begin of the minute before this one, in seconds: all reports lie in one candle. */
const T = 60 * (Math.floor(Date.now() / 60_000) - 1)

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

/** A service whose feed has a hole at T + 5, and goes on to T + 11. */
async function serviceWithHole(): Promise<DataEngine> {
  const engine = await startDataEngine({
    feeds: [eth, btc].map(feedID => ({ feedID, intervalMs: 0 })),
    history: 0,
  })
  closers.push(() => engine.close())
  for (let at = 0; at < 12; at++) {
    if (at !== 5) publish(engine, eth, at)
    publish(engine, btc, at)
  }
  return engine
}

async function serviceWithoutHistory(): Promise<DataEngine> {
  const engine = await startDataEngine({ feeds: [{ feedID: eth, intervalMs: 0 }], history: 0 })
  closers.push(() => engine.close())
  return engine
}

const PRICE = 3_214_581_200_000_000_000_000n

function publish(engine: DataEngine, feedID: string, at: number): string {
  return publishWindow(engine, feedID, at, at)
}

/** Publishes a report whose price says its time. */
function publishWindow(engine: DataEngine, feedID: string, from: number, to: number): string {
  const times = { validFromTimestamp: T + from, observationsTimestamp: T + to }
  return engine.publish(feedID, { ...times, price: PRICE + BigInt(to) }).fullReport
}

function clientOf(engine: DataEngine) {
  const { endpoint, wsEndpoint, apiKey, userSecret, network } = engine
  const plugins = defaultPreset({ apiKey, userSecret, verify: { signers: network } })
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  return client
}

const reasonOf = (promise: Promise<unknown>): Promise<string | undefined> =>
  promise.then(
    () => undefined,
    (error: ProofError) => error.reason,
  )

describe('a report that the network signed later than its time', () => {
  test('is told from one that was signed in time, by pages and by getReportAt', async () => {
    const engine = await serviceWithHole()
    const client = clientOf(engine)
    publish(engine, eth, 5)
    const report = await client.getReportAt(eth, T + 5)
    expect(report.signedLater).toEqual({ after: (T + 11) * 1000, before: undefined })
    expect((await client.getReportAt(eth, T + 4)).signedLater).toBeUndefined()
    const page = await client.getReportsPage(eth, T, 20)
    expect(page.filter(each => each.signedLater !== undefined)).toHaveLength(1)
    // The network goes on: what comes now bounds when the report was signed.
    publish(engine, eth, 12)
    const again = await client.getReportAt(eth, T + 5)
    expect(again.signedLater).toEqual({ after: (T + 11) * 1000, before: (T + 12) * 1000 })
  })

  test('is refused in a proof, or named with the times between which it was signed', async () => {
    const engine = await serviceWithHole()
    const client = clientOf(engine)
    publish(engine, eth, 5)
    const other = publish(engine, btc, 13)
    publish(engine, eth, 14)
    const options = { feedID: eth, at: T + 5 }
    expect(await reasonOf(createProof(client, options))).toBe('signed-later')
    const proof = await createProof(client, { ...options, allowSignedLater: true })
    expect(proof).toMatchObject({ version: 2, missing: [] })
    expect(proof.neighbours).toHaveLength(2)
    const signers = engine.network
    expect(await reasonOf(checkProof(proof, { signers }))).toBe('signed-later')
    const found = await checkProof(proof, { signers, allowSignedLater: true })
    // The neighbour is the report of T + 6, which was signed before it.
    const late = { index: 0, observationsTimestamp: T + 5, after: (T + 6) * 1000 }
    expect(found.signedLater).toEqual([{ ...late, before: undefined }])
    expect(found.proved.join(' ')).toContain('reports[0] was signed after a report of')
    // A report of another feed of the network says more.
    const more = { signers, allowSignedLater: true, against: [other] }
    const bounded = await checkProof(proof, more)
    expect(bounded.signedLater).toEqual([{ ...late, before: (T + 13) * 1000 }])
    expect(bounded.witnesses).toBe(0)
  })

  test('spoils an average that needs it', async () => {
    const engine = await serviceWithHole()
    const client = clientOf(engine)
    publish(engine, eth, 5)
    const ends = { open: 'to', straddling: 'clip' } as const
    const window = { from: T + 1, to: T + 9, ends }
    expect(await reasonOf(createProof(client, { feedID: eth, ...window }))).toBe('signed-later')
    const before = { ...window, to: T + 5 }
    const proof = await createProof(client, { feedID: eth, ...before })
    const { proved, unproved } = await checkProof(proof, { signers: engine.network })
    expect(proved.join(' ')).toContain('The reports were signed before a report of')
    expect(unproved).toHaveLength(1)
    const reports: AveragedReport[] = []
    for await (const report of client.getReportsBetween(eth, T, T + 11)) reports.push(report)
    expect(twap(reports, window).signedLater).toBe(1)
    expect(twap(reports, before).signedLater).toBe(0)
    const counts: number[] = []
    for await (const candle of candlesOf(reports, { intervals: ['1m'] }))
      counts.push(candle.signedLater)
    expect(counts).toEqual([1])
  })

  test('is not shown by a proof of the older format, which says so', async () => {
    const engine = await serviceWithHole()
    const client = clientOf(engine)
    publish(engine, eth, 5)
    const options = { feedID: eth, at: T + 5, allowSignedLater: true }
    const { neighbours: _, ...rest } = await createProof(client, options)
    const old: Proof = { ...rest, version: 1 }
    const { unproved, signedLater } = await checkProof(old, { signers: engine.network })
    expect(signedLater).toEqual([])
    expect(unproved.join(' ')).toContain(
      'That the reports were signed at their time, as version 1 of the format has no neighbours.',
    )
  })

  test('is refused in a row of such reports, whose neighbours were signed later, too', async () => {
    const engine = await serviceWithoutHistory()
    const client = clientOf(engine)
    for (const at of [8, 9, 20, 21, 22, 23]) publish(engine, eth, at)
    for (let at = 10; at < 20; at++) publish(engine, eth, at)
    for (const at of [10, 14, 19]) {
      const options = { feedID: eth, at: T + at }
      expect(await reasonOf(createProof(client, options))).toBe('signed-later')
      const proof = await createProof(client, { ...options, allowSignedLater: true })
      expect(await reasonOf(checkProof(proof, { signers: engine.network }))).toBe('signed-later')
    }
    const ends = { open: 'to', straddling: 'clip' } as const
    const window = { from: T + 12, to: T + 17, ends }
    expect(await reasonOf(createProof(client, { feedID: eth, ...window }))).toBe('signed-later')
    const reports: AveragedReport[] = []
    for await (const report of client.getReportsBetween(eth, T + 12, T + 17)) reports.push(report)
    expect(twap(reports, window).signedLater).toBe(5)
    // Nobody can choose neighbours that say more than they show.
    const proof = await createProof(client, { feedID: eth, at: T + 14, allowSignedLater: true })
    const next = await client.getReportAt(eth, T + 15)
    const chosen = { ...proof, neighbours: [next.fullReport] }
    const { signedBefore, assumed } = await checkProof(chosen, { signers: engine.network })
    expect(signedBefore).toBe((T + 15) * 1000)
    expect(assumed.join(' ')).toContain('was itself signed at its time')
    const far = { ...proof, neighbours: [(await client.getReportAt(eth, T + 19)).fullReport] }
    const within = { signers: engine.network, signedWithin: 2000 }
    expect(await reasonOf(checkProof(chosen, within))).toBeUndefined()
    expect(await reasonOf(checkProof(far, within))).toBe('signed-later')
    const none = { ...proof, neighbours: [] }
    expect(await reasonOf(checkProof(none, within))).toBe('signed-later')
  })

  test('has the times that it was observed first for, and refutes nothing that was signed in time', async () => {
    const engine = await serviceWithoutHistory()
    const client = clientOf(engine)
    // The network leaves 2 out, and the next report stands for 1 to 3.
    for (const [from, to] of [
      [0, 0],
      [1, 3],
      [4, 4],
    ] as const)
      publishWindow(engine, eth, from, to)
    const options = { feedID: eth, at: T + 2 }
    const honest = await createProof(client, options)
    const late = publishWindow(engine, eth, 2, 2)
    const signers = engine.network
    expect(honest.claim.value).toBe(String(PRICE + 3n))
    const against = { signers, against: [late] }
    expect(await checkProof(honest, against)).toMatchObject({ witnesses: 1, signedLater: [] })
    const allowing = { ...against, allowSignedLater: true }
    expect(await reasonOf(checkProof(honest, allowing))).toBe('refuted')
    expect((await client.getReportAt(eth, T + 2)).signedLater).toBeDefined()
    expect(await reasonOf(createProof(client, options))).toBe('signed-later')
    const allowed = await createProof(client, { ...options, allowSignedLater: true })
    expect(allowed.claim.value).toBe(String(PRICE + 2n))
    const found = await checkProof(allowed, { signers, allowSignedLater: true })
    expect(found.signedLater).toMatchObject([{ observationsTimestamp: T + 2 }])
    // The average has the same rule as the price: 1 and 3 belong to the report that holds both.
    const ends = { open: 'to', straddling: 'clip' } as const
    const window = { from: T, to: T + 5, ends }
    const sum = 5n * PRICE + 0n + 3n + 2n + 3n + 4n
    const average = await createProof(client, { feedID: eth, ...window, allowSignedLater: true })
    expect(average.claim).toMatchObject({ sum: String(sum) })
    await checkProof(average, { signers, allowSignedLater: true })
    const reports: AveragedReport[] = []
    for await (const report of client.getReportsBetween(eth, T, T + 4)) reports.push(report)
    expect(twap(reports, window)).toMatchObject({ sum, reports: 4, signedLater: 1 })
    // A neighbour that stands for a time of the proof refutes it.
    const refuted = { ...honest, neighbours: [late] }
    expect(await reasonOf(checkProof(refuted, { signers, allowSignedLater: true }))).toBe('refuted')
  })

  test('is marked and counted by a stream that delivers it', async () => {
    const engine = await startDataEngine({
      feeds: [{ feedID: eth, intervalMs: 0 }],
      history: 0,
    })
    closers.push(() => engine.close())
    const stream = clientOf(engine).createStream(eth)
    const reports: Report[] = []
    stream.on('report', report => void reports.push(report))
    await stream.connect()
    for (const at of [0, 1, 2, 4, 5, 3]) publish(engine, eth, at)
    await until(() => reports.length === 6)
    const late = reports.filter(report => report.signedLater !== undefined)
    expect(late.map(each => [each.observationsTimestamp, each.signedLater])).toEqual([
      [T + 3, { after: (T + 5) * 1000, before: undefined }],
    ])
    expect(stream.getMetrics().signedLater).toBe(1)
  })
})

test('the engine signs reports later, as a channel that backfills does', async () => {
  const engine = await startDataEngine({
    feeds: [eth, btc],
    clock: 'manual',
    historyBackfill: { every: 5, afterMs: 7000 },
  })
  closers.push(() => engine.close())
  await engine.advance(60_000)
  const all = engine.ledger()
  const late = all.filter((report, index) =>
    all
      .slice(0, index)
      .some(
        before =>
          before.feedID === report.feedID &&
          before.observationsTimestamp > report.observationsTimestamp,
      ),
  )
  expect(late.length).toBeGreaterThanOrEqual(20)
  for (const { validFromTimestamp, observationsTimestamp, publishedAt } of late) {
    expect(validFromTimestamp).toBe(observationsTimestamp)
    expect(Math.floor(publishedAt / 1000) - observationsTimestamp).toBe(7)
  }
  const numbers = all.map(({ seqNr }) => seqNr)
  expect(numbers).toEqual([...numbers].sort((one, other) => one - other))
})
