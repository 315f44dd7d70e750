import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { until } from '@sluice/test-support/waiting.js'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { knownFeeds } from 'sluice'
import { formatPrice } from 'sluice/report'
import { runHere, start } from './support/cli.js'

const eth = knownFeeds.testnet['ETH/USD'].feedID
const inMs = `0x1003${'ab'.repeat(30)}`
const FIRST = 1_700_000_000
const COUNT = 250

let engine: DataEngine
const folder = mkdtempSync(join(tmpdir(), 'sluice-requests-'))
const inFolder = (name: string): string => join(folder, name)
beforeAll(async () => {
  engine = await startDataEngine({ feeds: [eth, inMs], intervalMs: 0, history: 0 })
  for (let at = 0; at < COUNT; at++)
    engine.publish(eth, {
      validFromTimestamp: FIRST + 2 * at - 1,
      observationsTimestamp: FIRST + 2 * at,
    })
  engine.publish(inMs, { observationsTimestamp: 1000 * FIRST })
})
afterAll(async () => {
  await engine.close()
  rmSync(folder, { recursive: true })
})

const env = (): Record<string, string> => ({
  API_KEY: engine.apiKey,
  USER_SECRET: engine.userSecret,
  REST_URL: engine.endpoint,
  WS_URL: engine.wsEndpoint,
})
const run = (...args: readonly string[]) => runHere(args, { env: env() })
const linesOf = (text: string): readonly string[] => text.trim().split('\n')
const timesOf = (text: string): readonly number[] =>
  linesOf(text).map(line => JSON.parse(line).observationsTimestamp)
const all = Array.from({ length: COUNT }, (_, at) => FIRST + 2 * at)
const range = ['--from', String(FIRST), '--to', String(FIRST + 2 * COUNT)]

describe('sluice history', () => {
  test('prints every report of a range, as JSON, CSV or lines, feeds by name or id', async () => {
    const json = await run('history', 'eth/usd', ...range, '--json')
    expect(json).toMatchObject({ code: 0, err: '' })
    expect(timesOf(json.out)).toEqual(all)
    const csv = await run('history', eth, ...range, '--csv', '--limit', '60')
    const [head, ...rows] = linesOf(csv.out)
    expect(head).toBe(
      'feedID,name,validFromTimestamp,observationsTimestamp,price,bid,ask,fullReport',
    )
    expect(rows.map(row => Number(row.split(',')[3]))).toEqual(all)
    const plain = await run('history', 'ETH-USD', ...range)
    expect(linesOf(plain.out)).toHaveLength(COUNT)
    expect(plain.out).toMatch(/^ETH\/USD +V3 +2023-11-14 22:13:20Z +price \d+\.\d{4} /)
  })

  test('prices have their decimals, or are the integers that are signed', async () => {
    const [scaled, raw] = await Promise.all([
      run('latest', eth, '--json'),
      run('latest', eth, '--json', '--raw'),
    ])
    const { decoded, prices } = JSON.parse(scaled?.out ?? '')
    expect(prices).toEqual({
      price: formatPrice(BigInt(decoded.price), 18),
      bid: formatPrice(BigInt(decoded.bid), 18),
      ask: formatPrice(BigInt(decoded.ask), 18),
    })
    expect(JSON.parse(raw?.out ?? '')).toMatchObject({ decoded })
    expect(JSON.parse(raw?.out ?? '').prices).toBeUndefined()
  })

  test('goes on with a file where it ends, and what was cut off comes again', async () => {
    for (const format of ['--json', '--csv']) {
      const out = inFolder(`history${format}`)
      const args = ['history', eth, ...range, format, '--out', out]
      const whole = await run(...args)
      expect(whole).toMatchObject({ code: 0, err: `sluice: 250 reports written to ${out}\n` })
      const text = readFileSync(out, 'utf8')
      truncateSync(out, Math.round(text.length / 3))
      expect((await run(...args)).err).toMatch(/^sluice: --out .* exists: --resume continues it\n$/)
      const resumed = await run(...args, '--resume')
      expect(resumed.code).toBe(0)
      expect(readFileSync(out, 'utf8').replace(/"source":"\w+"/g, '')).toBe(
        text.replace(/"source":"\w+"/g, ''),
      )
      expect((await run(...args, '--resume')).err).toMatch(/^sluice: 0 reports written/)
    }
    const other = await run(
      'history',
      inMs,
      ...range,
      '--json',
      '--out',
      inFolder('history--json'),
      '--resume',
    )
    expect(other).toMatchObject({ code: 2 })
    expect(other.err).toMatch(/holds no reports of feed 0x1003/)
  })

  test('goes on with a file in its own format only, and leaves another as it is', async () => {
    const formats = [['--json'], ['--json', '--raw'], ['--csv'], ['--csv', '--raw']]
    for (const [at, format] of formats.entries()) {
      const out = inFolder(`format-${at}`)
      const args = ['history', eth, ...range, '--out', out]
      await run(...args, ...format)
      const text = readFileSync(out, 'utf8')
      for (const other of formats) {
        const { code, err } = await run(...args, ...other, '--resume')
        const refused = `sluice: --resume can’t add ${other[0] === '--json' ? 'JSON' : 'CSV'} to ${out}, which has another format: give --json or --csv, --raw and --decimals as for its first reports\n`
        expect([code, err]).toEqual(
          other === format ? [0, `sluice: 0 reports written to ${out}\n`] : [2, refused],
        )
        expect(readFileSync(out, 'utf8')).toBe(text)
      }
    }
  })

  test.each([
    ['other columns', (text: string) => text.replace(',bid,ask,', ',ask,bid,')],
    ['a head alone, of other columns', () => 'feedID,name,fullReport\n'],
    ['no head', (text: string) => text.slice(text.indexOf('\n') + 1)],
  ])('doesn’t go on with CSV that has %s', async (_what, change) => {
    const out = inFolder('columns.csv')
    const args = ['history', eth, ...range, '--csv', '--out', out]
    rmSync(out, { force: true })
    await run(...args)
    const text = change(readFileSync(out, 'utf8'))
    writeFileSync(out, text)
    const { code, err } = await run(...args, '--resume')
    expect([code, readFileSync(out, 'utf8')]).toEqual([2, text])
    expect(err).toMatch(
      /^sluice: --resume can’t add CSV to .*columns\.csv, which has another format/,
    )
  })

  test('goes on with a head alone', async () => {
    const out = inFolder('head.csv')
    writeFileSync(
      out,
      'feedID,name,validFromTimestamp,observationsTimestamp,price,bid,ask,fullReport\n',
    )
    const { err } = await run('history', eth, ...range, '--csv', '--out', out, '--resume')
    expect(err).toBe(`sluice: 250 reports written to ${out}\n`)
    expect(linesOf(readFileSync(out, 'utf8'))).toHaveLength(COUNT + 1)
  })

  test('stopped, it counts what it has written', async () => {
    const out = inFolder('stopped.csv')
    const args = ['history', eth, ...range, '--csv', '--out', out, '--limit', '50', '--rate', '1']
    // The bar shows the first page; the second waits for its turn.
    const running = start(args, { env: env(), terminals: ['stderr'] })
    await until(() => running.output.err.includes(' reports, '))
    running.stop()
    const { code, err } = await running.ended
    const written = linesOf(readFileSync(out, 'utf8')).length - 1
    expect([code, written > 0, written < COUNT]).toEqual([130, true, true])
    expect(err).toContain(`sluice: ${written} reports written to ${out}; --resume continues it\n`)
    expect(err).toContain('sluice: stopped by SIGINT before it was done\n')
  })

  test('ends with 2 where it would begin in the future', async () => {
    expect(await run('history', eth, '--from', '2038-01-01', '--json')).toEqual({
      code: 2,
      out: '',
      err: 'sluice: --from must not be in the future: 2038-01-01T00:00:00Z is\n',
    })
  })

  test('writes Parquet, which another reads', async () => {
    const out = inFolder('history.parquet')
    const { code, err } = await run('history', eth, ...range, '--parquet', '--out', out)
    expect([code, err]).toEqual([0, `sluice: 250 reports written to ${out}\n`])
    const rows = await parquetReadObjects({ file: await asyncBufferFromFile(out) })
    const [report] = engine.ledger()
    expect(rows.map(row => Number(row.observationsTimestamp))).toEqual(all)
    expect(rows[0]).toMatchObject({ feedID: eth, fullReport: report?.fullReport })
    const latest = JSON.parse((await run('latest', eth, '--json')).out)
    expect(rows.at(-1)?.price).toBeCloseTo(Number(latest.prices.price), 9)
  })

  test.each([
    [['--json', '--csv'], "option '--json' cannot be used with option '--csv'"],
    [['--resume'], '--resume needs --out'],
    [['--out', 'x'], '--out needs --json, --csv or --parquet'],
    [
      ['--out', '/none/x', '--json'],
      '--out can’t be written to /none/x: ENOENT, there is no such file or folder',
    ],
    [
      ['--out', 'x', '--json', '--parquet'],
      "option '--parquet' cannot be used with option '--json'",
    ],
  ])('%j ends with 2', async (args, message) => {
    expect(await run('history', eth, ...range, ...args)).toEqual({
      code: 2,
      out: '',
      err: `sluice: ${message}\n`,
    })
  })
})

test('sluice page prints one page, and where the next begins', async () => {
  const { out, err, code } = await run(
    'page',
    eth,
    '--from',
    String(FIRST + 3),
    '--limit',
    '3',
    '--json',
  )
  expect(timesOf(out)).toEqual([FIRST + 4, FIRST + 6, FIRST + 8])
  expect([err, code]).toEqual([
    `sluice: 3 reports; the next page is --from ${FIRST + 9} (2023-11-14 22:13:29Z)\n`,
    0,
  ])
  expect(await run('page', eth, '--from', '2038-01-01')).toMatchObject({ out: '', code: 2 })
})

test('sluice bulk prints the reports of a time, feeds of both units, and says which has none', async () => {
  const { out, code } = await run('bulk', `${eth},${inMs}`, '--at', String(FIRST), '--json')
  expect([linesOf(out).map(line => JSON.parse(line).feedID), code]).toEqual([[eth, inMs], 0])
  const missing = await run('bulk', eth, inMs, '--at', String(FIRST - 100))
  expect(missing.code).toBe(1)
  expect(missing.err).toMatch(
    /^sluice: ETH\/USD has no report at 2023-11-14 22:11:40Z\n.*0x1003abab…abab has no report/,
  )
})

describe('sluice gaps', () => {
  test('finds none where the chain is whole, at the service and in a file', async () => {
    const { out, code } = await run('gaps', '--feed', 'ETH/USD', ...range)
    expect([out, code]).toEqual(['250 reports of 1 feed: no gaps\n', 0])
  })

  test('finds what is missing in a file, and counts what stands there twice', async () => {
    const { out: json } = await run('history', eth, ...range, '--json')
    const lines = linesOf(json)
    const file = inFolder('gaps.ndjson')
    // In any order, without the reports 7 to 9 and 100, and 3 twice.
    const rest = [...lines.filter((_, at) => !(at >= 7 && at <= 9) && at !== 100), lines[3]]
    writeFileSync(file, rest.reverse().join('\n'))
    const { out, code } = await run('gaps', file)
    expect(code).toBe(1)
    expect(linesOf(out)).toEqual([
      'ETH/USD          2023-11-14 22:13:33Z to 22:13:38Z  6 s  missing',
      'ETH/USD          2023-11-14 22:16:39Z to 22:16:40Z  2 s  missing',
      '246 reports of 1 feed: 2 gaps',
      '1 report too many: they stand there more than once',
    ])
    expect((await run('gaps', file, '--feed', 'eth/usd')).out).toBe(out)
    expect(await run('gaps', file, '--feed', 'BTC/USD')).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringContaining('no report of BTC/USD in there'),
    })
    expect(await run('gaps', file, '--feed', 'BTC')).toMatchObject({ code: 2, out: '' })
    const found = await run('gaps', file, '--json')
    expect(linesOf(found.out).map(line => JSON.parse(line))).toEqual([
      { feedID: eth, from: FIRST + 13, to: FIRST + 18, kind: 'missing' },
      { feedID: eth, from: FIRST + 199, to: FIRST + 200, kind: 'missing' },
    ])
  })

  test('of reports of one unit each it says only that something may be missing', async () => {
    await using narrow = await startDataEngine({ feeds: [eth], intervalMs: 0, history: 0 })
    const file = inFolder('narrow.ndjson')
    const line = (time: number): string =>
      JSON.stringify(narrow.publish(eth, { validFromTimestamp: time, observationsTimestamp: time }))
    writeFileSync(file, [1, 2, 5].map(at => line(FIRST + at)).join('\n'))
    const { out, code } = await run('gaps', file)
    expect(out).toMatch(
      /22:13:23Z to 22:13:24Z {2}2 s {2}possibly missing\n3 reports of 1 feed: no gaps\n/,
    )
    expect(code).toBe(0)
    expect(await run('gaps', file, '--strict')).toMatchObject({ code: 1 })
  })

  test.each([
    [[], 'files, or --feed and --from, must be given'],
    [['none.ndjson'], 'the report can’t be read from none.ndjson: ENOENT'],
    [['--feed', 'NONE/USD', '--from', '1h'], '"NONE/USD" is no feed'],
    [['--feed', eth, '--from', 'soon'], "option '--from <time>' argument 'soon' is invalid"],
  ])('%j ends with 2', async (args, message) => {
    const { out, err, code } = await run('gaps', ...args)
    expect([out, code]).toEqual(['', 2])
    expect(err).toContain(message)
    expect(linesOf(err)).toHaveLength(1)
  })
})
