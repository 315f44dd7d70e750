import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { until } from '@sluice/test-support/waiting.js'
import { start } from './support/cli.js'

const feedID = `0x1003${'ab'.repeat(30)}`
const COUNT = 40
const STEP = 25

const folder = mkdtempSync(join(tmpdir(), 'sluice-replay-'))
const file = join(folder, 'reports.ndjson.gz')
let lines: readonly string[]
beforeAll(async () => {
  await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
  for (let at = 1; at <= COUNT; at++)
    engine.publish(feedID, { observationsTimestamp: 1_700_000_000_000 + at * STEP })
  lines = engine.ledger().map(({ fullReport }) => JSON.stringify({ feedID, fullReport }))
  writeFileSync(file, gzipSync(lines.join('\n')))
})
afterAll(() => rmSync(folder, { recursive: true }))

test.each([
  ['max', 0],
  ['1', (COUNT - 1) * STEP],
  ['2x', ((COUNT - 1) * STEP) / 2],
])(
  'replay --speed %s brings a client every report, unchanged, in at least %i ms',
  async (speed, ms) => {
    const args = ['replay', file, '--port', '0', '--speed', speed, '--wait', '--exit']
    const replaying = start(args)
    await until(() => replaying.output.err.includes('1 feed:'))
    const env = Object.fromEntries(
      [...replaying.output.out.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [
        name,
        value,
      ]),
    )
    const begun = performance.now()
    const streaming = start(['stream', feedID, '--json', '--max-reconnects', '0'], { env })
    await streaming.shows(new RegExp(`^(.*\\n){${COUNT}}`))
    // Nothing is published before a client is there. A timer may be a millisecond early.
    expect(performance.now() - begun).toBeGreaterThan(ms - 10)
    streaming.stop()
    const { out } = await streaming.ended
    const reports = out
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(reports.map(({ fullReport }) => JSON.stringify({ feedID, fullReport }))).toEqual(lines)
    expect(await replaying.ended).toMatchObject({
      code: 0,
      err: expect.stringMatching(`\n1 feed:\n.*\nsluice: ${COUNT} reports published\n$`),
    })
  },
)

/** A recording begun with `--from`: what was fetched lies behind what came, and one report was missed. */
function writeFetched(): string {
  const path = join(folder, 'fetched.ndjson')
  const begin = COUNT / 2
  const record = (at: number, source: string) =>
    JSON.stringify({ ...JSON.parse(lines[at] as string), source })
  const numbers = lines.map((_, at) => at)
  const fetched = numbers.filter(at => at < begin || at === begin + 5)
  const live = numbers.filter(at => !fetched.includes(at))
  const records = [
    ...live.map(at => record(at, 'live')),
    ...fetched.map(at => record(at, 'backfill')),
  ]
  writeFileSync(path, records.join('\n'))
  return path
}

/** Replays a file to its end, and returns what a stream of it has shown. */
async function replayed(path: string, ...more: readonly string[]) {
  const replaying = start(['replay', path, '--port', '0', ...more])
  await until(() => replaying.output.err.includes('1 feed:'))
  const settings = replaying.output.out.matchAll(/^([A-Z_]+)=(.*)$/gm)
  const env = Object.fromEntries([...settings].map(([, name, value]) => [name, value]))
  const streaming = start(['stream', feedID, '--json'], { env })
  await streaming.shows(new RegExp(`^(.*\\n){${COUNT}}`))
  streaming.stop()
  const { out } = await streaming.ended
  replaying.stop()
  const { err } = await replaying.ended
  const reports = out
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { readonly fullReport: string; readonly source: string })
  return { err, reports }
}

test('what a recorder has fetched from before its stream began is published in the order of time', async () => {
  const { err, reports } = await replayed(writeFetched(), '--speed', 'max', '--wait')
  expect(reports.map(({ fullReport }) => JSON.stringify({ feedID, fullReport }))).toEqual(lines)
  expect(err).not.toContain('not streamed')
})

test('replay --as-service says how many reports its stream had missed', async () => {
  const replaying = start(['replay', writeFetched(), '--as-service', '--port', '0'])
  await until(() => replaying.output.err.includes('1 report not streamed, which'))
  replaying.stop()
  expect((await replaying.ended).code).toBe(0)
})

test('replay --as-service is the service of that day: REST has what came before', async () => {
  const script = join(folder, 'script.json')
  writeFileSync(script, JSON.stringify([{ lagMs: 50 }, { lose: 0.5 }]))
  const begin = new Date(1_700_000_000_000 + (COUNT / 2) * STEP).toISOString()
  const args = ['replay', file, '--as-service', '--port', '0', '--script', script]
  const replaying = start([...args, '--from', begin, '--speed', '2'])
  await until(() => replaying.output.err.includes('to come'))
  expect(replaying.output.err).toContain('origin 002 at ws://')
  expect(replaying.output.err).toContain('the clock begins at 2023-11-14 22:13:20')
  const env = Object.fromEntries(
    [...replaying.output.out.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [
      name,
      value,
    ]),
  )
  await until(() => replaying.output.err.includes('published'))
  const from = '2023-11-14T22:13:20Z'
  const fetched = await start(['history', feedID, '--from', from, '--json'], { env }).ended
  const reports = fetched.out
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(reports.map(({ fullReport }) => JSON.stringify({ feedID, fullReport }))).toEqual(lines)
  replaying.stop()
  expect((await replaying.ended).code).toBe(0)
})

test.each([
  [['--from', '1h'], '--from needs --as-service'],
  [['--as-service', '--wait'], 'cannot be used with'],
  [['--as-service', '--script', 'absent.json'], '--script can’t be read from absent.json'],
])('mistakes with --as-service are named: %j', async (more, message) => {
  const { code, err } = await start(['replay', file, '--port', '0', ...more]).ended
  expect(err).toContain(message)
  expect(code).toBe(2)
})
