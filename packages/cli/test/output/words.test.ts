import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { knownFeeds } from 'sluice'
import { dateRange } from '../../output/feeds.js'
import { runHere } from '../support/cli.js'

// Times, statuses and feeds as a person reads them, and as a program does.

const eth = knownFeeds.testnet['ETH/USD'].feedID
const idOf = (version: string): string => `0x${version}${'5a'.repeat(30)}`
const asset = idOf('0008')
const equity = idOf('000b')
const fund = idOf('0009')
const TIME = 1_700_000_000

let engine: DataEngine
const folder = mkdtempSync(join(tmpdir(), 'sluice-words-'))
beforeAll(async () => {
  const feeds = [eth, asset, equity, fund]
  engine = await startDataEngine({ feeds, intervalMs: 0, history: 0 })
  const at = { observationsTimestamp: TIME }
  engine.publish(eth, at)
  const lastUpdateTimestamp = BigInt(TIME - 60) * 1_000_000_000n
  engine.publish(asset, { ...at, lastUpdateTimestamp, marketStatus: 2 })
  engine.publish(equity, { ...at, marketStatus: 2 })
  engine.publish(fund, { ...at, ripcord: 1 })
  writeFileSync(join(folder, 'signers.json'), JSON.stringify(engine.network))
  writeFileSync(
    join(folder, 'reports.ndjson'),
    engine
      .ledger()
      .map(report => JSON.stringify(report))
      .join('\n'),
  )
})
afterAll(async () => {
  await engine.close()
  rmSync(folder, { recursive: true })
})

const run = (...args: readonly string[]) =>
  runHere(args, {
    env: {
      API_KEY: engine.apiKey,
      USER_SECRET: engine.userSecret,
      REST_URL: engine.endpoint,
      WS_URL: engine.wsEndpoint,
    },
  })

test('a status has the name that its version gives it, in a line and in a block', async () => {
  const { out } = await run('bulk', asset, equity, fund, '--at', String(TIME))
  const [one, other, third] = out.split('\n')
  expect(one).toMatch(/ marketStatus 2 \(OPEN\)$/)
  expect(one).toMatch(/ lastUpdateTimestamp 2023-11-14 22:12:20Z /)
  expect(other).toMatch(/ lastTradedPrice -?[\d.]+ {2}marketStatus 2 \(REGULAR\)$/)
  expect(third).toMatch(/ ripcord 1 \(PAUSED\)$/)
  expect((await run('latest', asset)).out).toMatch(/^marketStatus +2 \(OPEN\)$/m)
})

test('a block has the name of its feed, and its times in UTC behind their numbers', async () => {
  const { out } = await run('latest', eth)
  expect(out).toMatch(new RegExp(`^feedID +${eth} \\(ETH/USD\\)$`, 'm'))
  expect(out).toMatch(/^observationsTimestamp +1700000000 \(2023-11-14 22:13:20Z\)$/m)
  expect(out).toMatch(/^expiresAt +\d+ \(20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ\)$/m)
})

test('what is said beside the reports has dates and names', async () => {
  const page = await run('page', eth, '--from', String(TIME))
  expect(page.err).toMatch(/--from 1700000001 \(2023-11-14 22:13:21Z\)\n$/)
  const none = await run('page', eth, '--from', String(TIME + 9))
  expect(none.err).toBe('sluice: no reports from 2023-11-14 22:13:29Z on\n')
  const early = await run('bulk', eth, '--at', '1600000000')
  expect(early.err).toBe('sluice: ETH/USD has no report at 2020-09-13 12:26:40Z\n')
  const files = ['--signers', join(folder, 'signers.json')]
  const verified = await run('verify', join(folder, 'reports.ndjson'), ...files)
  expect(verified.out).toMatch(/^verified {2}ETH\/USD {10}2023-11-14 22:13:20Z {2}signed by \d\n/)
  const fullReport = engine.ledger()[0]?.fullReport ?? ''
  const one = await run('verify', fullReport, ...files)
  expect(one.out).toContain(`feed           ${eth} (ETH/USD)\n`)
  expect(one.out).toContain('observed       1700000000 (2023-11-14 22:13:20Z)\n')
})

test('JSON and CSV keep ids and numbers', async () => {
  const json = JSON.parse((await run('latest', asset, '--json')).out)
  expect(json.observationsTimestamp).toBe(TIME)
  expect(json.decoded.marketStatus).toBe(2)
  const csv = (await run('latest', asset, '--csv')).out.split('\n')[1]?.split(',') ?? []
  expect(csv[3]).toBe(String(TIME))
  expect(csv.at(-2)).toBe('2')
})

test('a range over midnight has both dates', () => {
  expect(dateRange(eth, TIME, TIME + 6)).toBe('2023-11-14 22:13:20Z to 22:13:26Z')
  expect(dateRange(eth, TIME, TIME + 86_400)).toBe('2023-11-14 22:13:20Z to 2023-11-15 22:13:20Z')
  expect(dateRange(`0x1003${'ab'.repeat(30)}`, TIME * 1000 + 5, TIME * 1000 + 6)).toBe(
    '2023-11-14 22:13:20.005Z to 22:13:20.006Z',
  )
})

const at = ['--at', String(TIME)]

test('-o json and -o csv are --json and --csv', async () => {
  for (const name of ['json', 'csv']) {
    const [long, short] = await Promise.all([
      run('latest', eth, `--${name}`),
      run('latest', eth, '-o', name),
    ])
    expect([short?.code, short?.out]).toEqual([0, long?.out])
  }
})

test('-o lines and -o table print a line and a row a report, with a head a version', async () => {
  const lines = await run('latest', eth, '-o', 'lines')
  expect(lines.out).toMatch(/^ETH\/USD +V3 +2023-11-14 22:13:20Z {2}price [\d.]+ {2}bid .*\n$/)
  const table = await run('bulk', eth, asset, ...at, '-o', 'table')
  expect(table.out).toMatch(/^feed +time +price +bid +ask\nETH\/USD +2023-11-14 22:13:20Z +\d/)
  expect(table.out).toMatch(/\nfeed +time +midPrice +lastUpdateTimestamp +marketStatus\n0x0008/)
  expect(table.out).toMatch(/2 \(OPEN\)\n$/)
})

test('-o template puts fields into a text, of every command that prints reports', async () => {
  const text = '{{name}} {{ time }} {{price}} {{marketStatus}}|'
  const { out } = await run('bulk', eth, asset, ...at, '-o', `template=${text}`)
  expect(out).toMatch(
    /^ETH\/USD 2023-11-14 22:13:20Z \d+(\.\d+)? \|\n0x00085a5a…5a5a 2023-.*Z {2}2\|\n$/,
  )
  const raw = await run('latest', eth, '--raw', '-o', 'template={{price}}')
  expect(raw.out).toMatch(/^\d{20,}\n$/)
  const decoded = await run('decode', join(folder, 'reports.ndjson'), '-o', 'template={{version}}')
  expect(decoded.out).toBe('V3\nV8\nV11\nV9\n')
})

test.each([
  ['template={{prise}}', "the template has an unknown field {{prise}}; did you mean 'price'?"],
  ['template={{.Price}}', "unknown field {{.Price}}; did you mean 'price'?"],
  ['template={price}', 'the template must have a field, such as {{price}}'],
  ['yaml', "'yaml' is invalid. must be json, csv, table, lines or template=TEXT"],
])('-o %s ends with 2 and says what to do', async (output, message) => {
  const { out, err, code } = await run('latest', eth, '-o', output)
  expect([out, code]).toEqual(['', 2])
  expect(err).toMatch(/^sluice: [^\n]*\n$/)
  expect(err).toContain(message)
})
