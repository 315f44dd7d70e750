import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { publishedReports as published } from '@sluice/test-support/report/published-reports.js'
import { type PublishedReport, type RecordedReport, startDataEngine } from '../index.js'
import { openStream, send, sleep, until } from './support/signed.js'

const eurUsd = '0x0004b9905d8337c34e00f8dbe31619428bac5c3937e73e6af75c71780f1770ce'

const expected = published.map(({ feedID, fullReport, decoded }) => ({
  feedID,
  fullReport,
  validFromTimestamp: Number(decoded.validFromTimestamp),
  observationsTimestamp: Number(decoded.observationsTimestamp),
}))

test('a recording is published unmodified, in order, one report per interval, and then no more', async () => {
  await using engine = await startDataEngine({ replay: published, intervalMs: 10 })
  expect(engine.feeds).toEqual([...new Set(published.map(report => report.feedID))])
  expect(engine.ledger().length).toBeLessThanOrEqual(1)
  const stream = await openStream(engine, `/api/v1/ws?feedIDs=${engine.feeds}`)
  await until(() => engine.ledger().length === 17)
  await sleep(50)
  const ledger = engine.ledger()
  expect(
    ledger.map(({ feedID, fullReport, validFromTimestamp, observationsTimestamp }) => ({
      feedID,
      fullReport,
      validFromTimestamp,
      observationsTimestamp,
    })),
  ).toEqual(expected)
  // The fifth vector's context ends in epoch 0x00445b54, round 0x03.
  expect(ledger[4]?.seqNr).toBe(0x445b5403)
  expect(engine.replayNext()).toBeUndefined()
  engine.resume()
  for (const { json } of stream.frames) expect(expected).toContainEqual(json.report)
  stream.socket.terminate()
})

test('with interval 0 a recording is published report by report when told, and REST has it', async () => {
  await using engine = await startDataEngine({ replay: published, intervalMs: 0 })
  const stream = await openStream(engine, `/api/v1/ws?feedIDs=${engine.feeds}`)
  const entries = published.map(() => engine.replayNext())
  expect(engine.replayNext()).toBeUndefined()
  await stream.received(17)
  expect(stream.frames.map(({ json }) => json.report)).toEqual(expected)
  expect(engine.ledger()).toEqual(entries)
  const { json } = await send(
    engine,
    `/api/v1/reports/page?feedID=${eurUsd}&startTimestamp=1748966421&limit=2`,
  )
  expect(json.reports).toEqual(expected.filter(({ feedID }) => feedID === eurUsd).slice(1, 3))
  const at = await send(engine, `/api/v1/reports?feedID=${eurUsd}&timestamp=1748966423`)
  expect(at.json.report).toEqual(
    expected.find(({ observationsTimestamp }) => observationsTimestamp === 1748966423),
  )
  stream.socket.terminate()
})

test('what one engine has published another replays, from the reports alone', async () => {
  const feeds = [`0x1003${'5a'.repeat(30)}`, `0x000e${'5b'.repeat(30)}`, eurUsd]
  let clock = 1_700_000_000_000
  await using first = await startDataEngine({ feeds, intervalMs: 0, history: 3, now: () => clock })
  clock += 7_000
  for (const feedID of feeds) first.publish(feedID)
  const replay = first.ledger().map(({ feedID, fullReport }) => ({ feedID, fullReport }))
  await using second = await startDataEngine({ replay, intervalMs: 0 })
  while (second.replayNext());
  const essence = ({ publishedAt, streamed, ...rest }: PublishedReport) => rest
  expect(second.ledger().map(essence)).toEqual(first.ledger().map(essence))
  expect(
    second.ledger().some(entry => entry.validFromTimestamp < entry.observationsTimestamp),
  ).toBe(true)
})

test('the sequence number of a recorded report is five bytes long', async () => {
  const { feedID, fullReport } = published[0] as RecordedReport
  const late = fullReport.replace('005437220a', 'ff5437220a')
  await using engine = await startDataEngine({
    replay: [{ feedID, fullReport: late }],
    intervalMs: 0,
  })
  expect(engine.replayNext()).toMatchObject({ fullReport: late, seqNr: 0xff_5437_220a })
})

test('duplicates are published as they were recorded, and a made report goes on after them', async () => {
  const [first] = published.filter(({ feedID }) => feedID === eurUsd)
  await using engine = await startDataEngine({
    replay: [first as RecordedReport, first as RecordedReport],
    intervalMs: 0,
    now: () => 1_700_000_000_000,
  })
  const entries = [engine.replayNext(), engine.replayNext()]
  expect(entries[1]).toEqual(entries[0])
  expect(engine.ledger()).toHaveLength(2)
  const made = engine.publish(eurUsd, { price: 7 })
  expect(made.validFromTimestamp).toBe((entries[1]?.observationsTimestamp ?? 0) + 1)
})

test('the times of a record win over those of its report, which then may be anything', async () => {
  const record = {
    feedID: `0x0063${'AB'.repeat(30)}`,
    fullReport: 'no report',
    validFromTimestamp: 5,
    observationsTimestamp: 9,
  }
  await using engine = await startDataEngine({ replay: [record], intervalMs: 0 })
  expect(engine.replayNext()).toMatchObject({
    ...record,
    feedID: record.feedID.toLowerCase(),
    seqNr: 0,
  })
  expect(() => engine.publish(record.feedID)).toThrow('no reports of version 99 can be made')
})

test('a recording is read from an NDJSON file, and a bad line is named', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'replay-'))
  try {
    const file = join(folder, 'reports.ndjson')
    const lines = published.map(({ feedID, fullReport }) => JSON.stringify({ feedID, fullReport }))
    await writeFile(file, `${lines.slice(0, 3).join('\r\n')}\n\n${lines.slice(3).join('\n')}\n`)
    await using engine = await startDataEngine({ replay: file, intervalMs: 0 })
    while (engine.replayNext());
    expect(engine.ledger().map(({ fullReport }) => fullReport)).toEqual(
      published.map(({ fullReport }) => fullReport),
    )
    await writeFile(file, `${lines[0]}\n{"feedID":\n`)
    await expect(startDataEngine({ replay: file })).rejects.toThrow(
      /^replay: line 2 of .* isn't JSON\. Correct or remove the line/,
    )
    await writeFile(file, `${lines[0]}\n\n{"feedID":"0x"}\n`)
    await expect(startDataEngine({ replay: file })).rejects.toThrow(
      /^replay: line 3 of .*: feedID is 0x and 64 hex digits\. Correct/,
    )
    await expect(startDataEngine({ replay: join(folder, 'none') })).rejects.toMatchObject({
      code: 'ENOENT',
    })
  } finally {
    await rm(folder, { recursive: true })
  }
})

test.each([
  [{ feedID: 'x', fullReport: '0x' }, 'feedID'],
  [{ feedID: eurUsd }, 'fullReport is a string'],
  [{ feedID: eurUsd, fullReport: '0x12' }, 'neither the record nor its report has times'],
  [
    { feedID: eurUsd, fullReport: `0x${'ff'.repeat(1_000)}` },
    'neither the record nor its report has times',
  ],
  [null, 'feedID'],
])('a record that can not be replayed is an error: %j', async (record, message) => {
  await expect(startDataEngine({ replay: [record as RecordedReport] })).rejects.toThrow(message)
})
