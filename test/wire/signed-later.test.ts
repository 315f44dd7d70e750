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
/** A minute ago, in seconds. */
const T = Math.floor(Date.now() / 1000) - 60

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

function publish(engine: DataEngine, feedID: string, at: number): string {
  const times = { validFromTimestamp: T + at, observationsTimestamp: T + at }
  return engine.publish(feedID, { ...times, price: 3_214_581_200_000_000_000_000n + BigInt(at) })
    .fullReport
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
    // The neighbour is the report of T + 6, which was signed before.
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
      'That 1 of the 1 reports were signed at their time, as version 1 of the format has no neighbours.',
    )
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
