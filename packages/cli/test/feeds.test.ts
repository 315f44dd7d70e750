import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { hurry } from '@sluice/test-support/hurry.js'
import { runHere } from './support/cli.js'

const eth = `0x0003${'e1'.repeat(30)}`
const euro = `0x0004${'f1'.repeat(30)}`
const fund = `0x0009${'a1'.repeat(30)}`
const average = `0x0002${'7a'.repeat(30)}`
const path = '/api/v1/discovery'

let engine: DataEngine
let home: string
beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'sluice-feeds-'))
  engine = await startDataEngine({
    intervalMs: 0,
    feeds: [
      { feedID: eth, catalogue: { baseAsset: 'ETH', createdAt: '2026-03-10T08:15:00Z' } },
      {
        feedID: euro,
        catalogue: { baseAsset: 'EUR', expectedDecommissionAt: '2126-12-01T12:00:00Z' },
      },
      { feedID: fund, catalogue: { baseAsset: 'FUND', hidden: true, status: 'testing' } },
      { feedID: average, twapOf: { feedID: eth, window: 30 } },
    ],
  })
})
afterEach(async () => {
  await engine.close()
  rmSync(home, { recursive: true })
})

const environment = () => ({
  API_KEY: engine.apiKey,
  USER_SECRET: engine.userSecret,
  REST_URL: engine.endpoint,
  WS_URL: engine.wsEndpoint,
  XDG_CACHE_HOME: home,
})
const run = (args: string, around: object = {}) =>
  runHere(args.split(' '), { env: environment(), ...around })
const folder = () => join(home, 'sluice', 'catalogue')
const asked = () => engine.requests().filter(each => each.path.startsWith(path))

test('feeds prints ids in a pipe, and a table on a terminal', async () => {
  expect(await run('feeds')).toEqual({ code: 0, out: `${eth}\n${euro}\n${average}\n`, err: '' })
  const { out } = await run('feeds -o table')
  const rows = out.trimEnd().split('\n')
  expect(rows[0]).toMatch(/^name +feedID +class +hours +version +retires$/)
  expect(rows[1]).toMatch(new RegExp(`^ETH/USD +${eth}  Crypto  Crypto  V3$`))
  expect(rows[2]).toMatch(new RegExp(`^EUR/USD +${euro}  Forex   Forex   V4       2126-12-01$`))
  const terminal = await run('feeds', { terminals: ['stdout'], columns: 200 })
  expect(terminal.out).toBe(out)
})

test.each([
  ['--asset eth', [eth, average]],
  ['--asset eth,eur', [eth, euro, average]],
  ['--asset ETH --asset EUR --class forex', [euro]],
  ['--quote USD --type Crypto --attribute CexPrice', [eth, average]],
  ['--hidden --status testing', [fund]],
  ['--retiring', [euro]],
  ['--retires-before 2126-12-02', [euro]],
  ['--created-after 2026-03-09', [eth]],
  ['--decommissioned-before 2027-01-01', []],
])('feeds %s', async (options, ids) => {
  const { out, code } = await run(`feeds ${options}`)
  expect([out.split('\n').filter(Boolean), code]).toEqual([ids, 0])
})

test('feeds as JSON, CSV and by a template', async () => {
  const [first] = (await run('feeds --json')).out.split('\n')
  expect(JSON.parse(first ?? '')).toMatchObject({
    feedID: eth,
    createdAt: '2026-03-10T08:15:00.000Z',
  })
  expect((await run('feeds -o csv')).out).toMatch(/^feedID,name,.*\n0x0003/)
  const { out } = await runHere(['feeds', '-o', 'template={{name}} {{ schemaVersion }}'], {
    env: environment(),
  })
  expect(out).toBe('ETH/USD V3\nEUR/USD V4\nETH/USD-Streams-TWAP-30s V2\n')
  const wrong = await run('feeds -o template={{nam}}')
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("did you mean 'name'?")])
})

test('a wrong date is wrong usage', async () => {
  for (const [args, message] of [
    ['--created-after 2026-2-1', 'must be a day such as 2027-01-31'],
    ['--retires-after 30d', 'must be a day such as 2027-01-31'],
    ['--created-before 0000-01-01', 'must be a day such as 2027-01-31'],
    ['--asset ', '--asset must have no empty text'],
  ] as const) {
    const { code, err } = await run(`feeds ${args}`)
    expect([code, err]).toEqual([2, expect.stringContaining(message)])
  }
})

test('an answer is kept for five minutes, for its key and its filters, for the user alone', async () => {
  await run('feeds')
  // The service is not asked, so it can't refuse a wrong secret.
  const kept = await run('feeds', { env: { ...environment(), USER_SECRET: 'wrong' } })
  expect(kept).toMatchObject({ code: 0, out: expect.stringContaining(eth) })
  expect(kept.err).toMatch(
    /this is the service's answer of \d seconds? ago, which is kept for five/,
  )
  expect(asked()).toHaveLength(1)
  await run('feeds --asset ETH')
  await run('feeds --refresh')
  expect(asked()).toHaveLength(3)
  const [file = ''] = readdirSync(folder())
  expect(readdirSync(folder())).toHaveLength(2)
  if (process.platform !== 'win32') expect(statSync(join(folder(), file)).mode & 0o777).toBe(0o600)
  expect(file + readFileSync(join(folder(), file), 'utf8')).not.toContain(engine.apiKey)
  engine.rotateKeys({ apiKey: 'another-key' })
  await run('feeds')
  expect(asked()).toHaveLength(4)
})

test('an old answer stands in while the service is down, with its age', async () => {
  await run('feeds')
  const [file = ''] = readdirSync(folder())
  const kept = JSON.parse(readFileSync(join(folder(), file), 'utf8'))
  writeFileSync(
    join(folder(), file),
    JSON.stringify({ ...kept, fetchedAt: Date.now() - 3 * 3_600_000 }),
  )
  engine.fail({ status: 503, path, times: Number.POSITIVE_INFINITY })
  hurry()
  const { out, err, code } = await run('feeds')
  expect([out, code]).toEqual([`${eth}\n${euro}\n${average}\n`, 0])
  expect(err).toContain('the service does not answer: this is its answer of 3 hours ago')
})

test('a file that is damaged is no answer, and old files are removed', async () => {
  await run('feeds')
  const [file = ''] = readdirSync(folder())
  writeFileSync(join(folder(), file), 'no JSON')
  const old = join(folder(), 'old.json')
  writeFileSync(old, '{}')
  utimesSync(old, 0, 0)
  expect((await run('feeds')).out).toContain(eth)
  expect(readdirSync(folder())).toEqual([file])
})

test('without a catalogue, the feeds that may be read are listed', async () => {
  engine.fail({ status: 404, path, times: 2 })
  const { out, err, code } = await run('feeds')
  expect([out.split('\n').filter(Boolean), code]).toEqual([[eth, euro, fund, average], 0])
  expect(err).toContain('the service has no catalogue: these are the feeds')
  const filtered = await run('feeds --asset ETH')
  expect([filtered.code, filtered.err]).toEqual([2, expect.stringContaining('takes no filter')])
})

test('a name is looked up in the catalogue, by one request and then in its file', async () => {
  expect((await run('latest EUR/USD')).out).toContain(euro.slice(0, 10))
  expect((await run('latest fund-usd')).code).toBe(0)
  expect((await run('latest ETH/USD-Streams-TWAP-30s')).code).toBe(0)
  expect(asked()).toHaveLength(1)
  const wrong = await run('latest NOSUCH/USD')
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('is no feed')])
})

test('a name of several feeds is wrong usage, and lists them', async () => {
  engine.catalogue.set(euro, { name: 'ETH/USD', networkType: 'mainnet' })
  const { code, err } = await run('latest ETH/USD')
  expect(code).toBe(2)
  expect(err).toContain('"ETH/USD" fits 2 feeds, so give the id of one:')
  expect(err).toContain(`${euro} ETH/USD mainnet live`)
})
