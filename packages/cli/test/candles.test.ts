import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { until } from '@sluice/test-support/waiting.js'
import { runHere, start } from './support/cli.js'

const eth = `0x0003${'e1'.repeat(30)}`
const first = Math.floor(Date.now() / 300_000) * 300 - 600

let engine: DataEngine
let folder: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-candles-'))
  engine = await startDataEngine({ feeds: [eth], intervalMs: 0, history: 0 })
  // Two whole minutes, and a third that misses its seconds 10 to 19.
  for (let second = 0; second < 180; second++) {
    const time = first + second
    if (second >= 130 && second < 140) continue
    const price = (3_000n + BigInt(second % 60)) * 10n ** 18n
    engine.publish(eth, { validFromTimestamp: time, observationsTimestamp: time, price })
  }
})
afterEach(async () => {
  await engine.close()
  rmSync(folder, { recursive: true })
})

const environment = () => ({
  API_KEY: engine.apiKey,
  USER_SECRET: engine.userSecret,
  REST_URL: engine.endpoint,
  WS_URL: engine.wsEndpoint,
})
const run = (args: readonly string[]) => runHere(['candles', ...args], { env: environment() })

const window = ['--from', String(first), '--to', String(first + 179)]

test('candles of a time that is past, as lines', async () => {
  const { code, out, err } = await run([eth, ...window])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const lines = out.trimEnd().split('\n')
  expect(lines).toHaveLength(3)
  expect(lines[0]).toMatch(
    /^20..-..-.. ..:..:00Z {2}1m {2}0x0003e1e1…e1e1 {2}open 3000 {2}high 3059 {2}low 3000 {2}close 3059 {2}twap 3029.5 {2}60 reports {2}complete$/,
  )
  expect(lines[2]).toMatch(/50 reports {2}misses 20..-..-.. ..:..:10Z.*:19Z?$/)
})

test('and as JSON and CSV, the same from a recorded file', async () => {
  const { out } = await run([eth, ...window, '--interval', '1m,5m', '--json'])
  const candles = out
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(candles.map(({ interval, complete }) => [interval, complete])).toEqual([
    ['1m', true],
    ['1m', true],
    ['1m', false],
    ['5m', false],
  ])
  expect(candles[2]).toMatchObject({
    feedID: eth,
    open: '3000000000000000000000',
    count: 50,
    missing: [{ from: first + 130, to: first + 139 }],
  })
  const csv = await run([eth, ...window, '--csv'])
  expect(csv.out.split('\n')[0]).toBe(
    'feedID,interval,start,end,open,high,low,close,twap,count,complete,missing,revision',
  )
  expect(csv.out.split('\n')[3]).toMatch(new RegExp(`,50,false,${first + 130}-${first + 139},50$`))

  const file = join(folder, 'reports.ndjson')
  writeFileSync(
    file,
    engine
      .ledger()
      .map(report => `${JSON.stringify(report)}\n`)
      .reverse()
      .join(''),
  )
  const recorded = await run(['--in', file, '--interval', '1m,5m', '--json'])
  expect(recorded.out.split('\n').sort()).toEqual(out.split('\n').sort())
})

test('of a damaged recording, what can be read', async () => {
  const lines = engine
    .ledger()
    .slice(0, 60)
    .map(report => ({ ...report, receivedAt: report.observationsTimestamp * 1000 }))
  const damaged: readonly (readonly [Record<string, unknown>, string])[] = [
    [{ fullReport: '0xZZ' }, 'line 2 of .*: fullReport must be 0x and digits'],
    [{ observationsTimestamp: 5 }, 'line 3 of .*: observationsTimestamp is 5, and the report is'],
    [{ receivedAt: -5 }, 'line 4 of .*: receivedAt must be milliseconds of Unix time, not -5'],
    [{ feedID: `0x0003${'f'.repeat(60)}` }, 'line 5 of .*: feedID is .*, and the report is signed'],
  ]
  const file = join(folder, 'damaged.ndjson')
  const written = lines.map((line, index) => ({ ...line, ...damaged[index - 1]?.[0] }))
  writeFileSync(file, written.map(line => `${JSON.stringify(line)}\n`).join(''))
  const { code, out, err } = await run(['--in', file, '--json'])
  expect(code).toBe(5)
  for (const [, rule] of damaged) expect(err).toMatch(new RegExp(`${rule}.*left out`))
  expect(JSON.parse(out)).toMatchObject({
    count: 56,
    missing: [{ from: first + 1, to: first + 4 }],
  })
  const gaps = await runHere(['gaps', file], {})
  expect(gaps.code).toBe(5)
  expect(gaps.err).toMatch(/left out/)
})

test('live candles, until it is stopped', async () => {
  const running = start(['candles', eth, '--interval', '1s', '--json'], { env: environment() })
  await until(() => engine.connections === 1)
  const time = Math.floor(Date.now() / 1000)
  engine.publish(eth, { validFromTimestamp: time, observationsTimestamp: time, price: 5n })
  await until(() => running.output.out.includes(`"start":${time}`))
  running.stop()
  expect(await running.ended).toMatchObject({ code: 0 })
  expect(running.output.out).toContain('"open":"5"')
})

test.each([
  [[], 'feeds, or --in, must be given'],
  [[eth, '--interval', '2m'], 'intervals must hold only 1s, 5s'],
  [[eth, '--to', '1h'], '--to needs --from'],
])('mistakes are named: %j', async (args, message) => {
  const { code, err } = await run(args)
  expect(err).toContain(message)
  expect(code).toBe(2)
})
