// What a recording that was killed writes again: nothing, in whichever file the report is.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import type { SinkStore } from 'sluice/plugins/sink'
import type { Report } from 'sluice/report'
import { processIO } from '../../io.js'
import { compressionOf } from '../../record/compression.js'
import { Recording } from '../../record/recording.js'

const feedA = `0x0003${'1a'.repeat(30)}`
const feedB = `0x0003${'2b'.repeat(30)}`

let dir: string
let journal: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-known-'))
  journal = join(dir, 'recording.json')
})
afterEach(() => rmSync(dir, { recursive: true }))

const reportOf = (feedID: string, time: number): Report =>
  ({
    ...{ feedID, validFromTimestamp: time, observationsTimestamp: time },
    ...{ fullReport: `0x${'ab'.repeat(400)}`, source: 'live', originID: '001' },
  }) as Report

/** Writes parts, each into a file of its own, and ends. */
async function record(
  ...parts: readonly {
    readonly reports: readonly Report[]
    readonly position?: Readonly<Record<string, number>>
  }[]
): Promise<void> {
  const recording = await Recording.open(dir)
  const rotation = { maxBytes: 0, maxMs: 3_600_000 }
  const store: SinkStore = recording.storeOf(compressionOf('none'), rotation, processIO())
  const { signal } = new AbortController()
  await store.open({ log: {}, signal })
  for (const { reports, position } of parts)
    await store.write({ reports, position, receivedAt: reports.map(Date.now), candles: [] })
  await recording.close()
}

/** The times of the reports in each file. */
const files = (): readonly string[] =>
  readdirSync(dir)
    .filter(name => name.startsWith('reports-'))
    .sort()
    .map(name =>
      readFileSync(join(dir, name), 'utf8')
        .trim()
        .split('\n')
        .map(line => JSON.parse(line) as Report)
        .map(
          ({ feedID, observationsTimestamp }) =>
            `${feedID === feedA ? 'A' : 'B'}${observationsTimestamp}`,
        )
        .join(' '),
    )

const a = (time: number): Report => reportOf(feedA, time)
const b = (time: number): Report => reportOf(feedB, time)

/** A101 is missing, so the position of A stays at 100 while that of B goes on. */
const holedParts = [
  { reports: [a(100), b(100)], position: { [feedA]: 100, [feedB]: 100 } },
  { reports: [a(102), b(101)], position: { [feedB]: 101 } },
  { reports: [b(102)], position: { [feedB]: 102 } },
]

test('a report before the files of another feed is known', async () => {
  await record(...holedParts)
  await record({ reports: [a(101), a(102), b(103)], position: { [feedA]: 102, [feedB]: 103 } })
  expect(files()).toEqual(['A100 B100', 'A102 B101', 'B102', 'A101 B103'])
})

test('a journal that does not say where such reports begin has all files read', async () => {
  await record(...holedParts)
  const { from: _, ...old } = JSON.parse(readFileSync(journal, 'utf8'))
  writeFileSync(journal, JSON.stringify(old))
  await record({ reports: [a(101), a(102)], position: { [feedA]: 102 } })
  expect(files()).toEqual(['A100 B100', 'A102 B101', 'B102', 'A101'])
})

test('the journal names the first file that must be read, over restarts', async () => {
  const from = (): unknown => JSON.parse(readFileSync(journal, 'utf8')).from
  await record(...holedParts)
  expect(from()).toMatch(/^reports-000002-/)
  await record({ reports: [b(103)], position: { [feedB]: 103 } })
  expect(from()).toMatch(/^reports-000002-/)
  await record({ reports: [a(101), a(102)], position: { [feedA]: 102 } })
  expect(from()).toBeNull()
  await record({ reports: [a(103)] }, { reports: [], position: { [feedA]: 103 } })
  expect(from()).toBeNull()
})
