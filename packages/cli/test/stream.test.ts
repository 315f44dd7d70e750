import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { withoutControls } from '@sluice/test-support/controls.js'
import { hurry } from '@sluice/test-support/hurry.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import { knownFeeds } from 'sluice'
import { type Around, type RunningHere, runHere, start } from './support/cli.js'

const eth = knownFeeds.testnet['ETH/USD'].feedID
const btc = knownFeeds.testnet['BTC/USD'].feedID
const feeds = [eth, btc]

let engine: DataEngine
let folder: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-stream-'))
  engine = await startDataEngine({ feeds, intervalMs: 0, history: 0, origins: 2 })
  writeFileSync(join(folder, 'signers.json'), JSON.stringify(engine.network))
})
afterEach(async () => {
  await engine.close()
  rmSync(folder, { recursive: true })
})

const inFolder = (name: string): string => join(folder, name)

function stream(args: readonly string[], around: Around = {}): RunningHere {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const env = { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint }
  return start(['stream', ...args], { ...around, env })
}

/** Streams until so many origins are connected. */
async function connected(running: RunningHere, connections: number): Promise<RunningHere> {
  await until(() => engine.connections === connections)
  await until(() => running.output.err.split(' is connected\n').length > connections)
  return running
}

async function stop(running: RunningHere): Promise<{ out: string; err: string }> {
  running.stop()
  const { out, err, code } = await running.ended
  expect([err, code]).toEqual([err, 0])
  return { out, err }
}

const linesOf = (text: string): readonly string[] => text.split('\n').slice(0, -1)
const START = 1_700_000_000
const publish = (feedID: string, time: number, from = time): void =>
  void engine.publish(feedID, {
    validFromTimestamp: START + from,
    observationsTimestamp: START + time,
    expiresAt: 4_000_000_000,
    price: 3_000n * 10n ** 18n,
  })

describe('sluice stream', () => {
  test('prints a line for each report, by the names of feeds, and the totals in the end', async () => {
    const running = await connected(stream(['ETH/USD,btc/usd', '--ha']), 2)
    publish(eth, 1)
    publish(btc, 1)
    await until(() => linesOf(running.output.out).length === 2)
    const { out, err } = await stop(running)
    expect(out).toMatch(
      /^ETH\/USD +V3 +2023-11-14 22:13:21Z +price 3000\.0000 .*\nBTC\/USD +V3 +2023-11-14 22:13:21Z /,
    )
    // The copies may come after it was stopped.
    expect(err).toMatch(/sluice: origin 001 is connected\n/)
    expect(err).toMatch(
      /sluice: 2 reports, duplicates \d, out of order 0, fetched later 0, gaps 0, dropped 0, /,
    )
    expect(err).toMatch(/sluice: origin 002: received \d, first with \d, out of order with \d/)
  })

  test.each([
    ['lines', / bid .*market open\n.*market bad-value\n$/s],
    ['json', /^\{"feedID":.*,"market":"open"\}\n\{.*,"market":"bad-value"\}\n$/s],
    ['csv', /^feedID,.*,fullReport,market\n.*,open\n.*,bad-value\n$/s],
    ['table', / market *\n.* open *\n.* bad-value *\n$/s],
  ])('--market says whether a feed may be traded: %s', async (format, expected) => {
    const running = await connected(stream(['ETH/USD', '--market', '-o', format]), 1)
    engine.publish(eth)
    engine.publish(eth, { price: 0n })
    await until(() => linesOf(running.output.out).length >= (/csv|table/.test(format) ? 3 : 2))
    expect((await stop(running)).out).toMatch(expected)
  })

  test('--market goes with no template', async () => {
    const { code, err } = await stream(['ETH/USD', '--market', '-o', 'template={{price}}']).ended
    expect([code, err]).toEqual([2, expect.stringContaining('--market is a column')])
  })

  test('says that the service is away, which attempt is next, and that it is back', async () => {
    const running = await connected(stream(['ETH/USD', '--max-reconnects', 'unlimited']), 1)
    hurry()
    await engine.stop()
    await until(() => /can’t be reached/.test(running.output.err))
    await engine.start()
    await until(() => /attempt.*is connected/s.test(running.output.err))
    const { err } = await stop(running)
    expect(err).toMatch(/ is lost: connection to 127\.0\.0\.1:\d+ was closed/)
    expect(err).toMatch(/: attempt 1 of any number in \d\.\d s\n/)
    expect(err).toMatch(
      / can’t be reached: no connection to 127\.0\.0\.1:\d+: connect ECONNREFUSED/,
    )
    // The request would name every feed.
    expect(err).not.toContain('feedIDs')
  })

  test('ends with 4 when it gives up, and with 3 when it is not authorised', async () => {
    hurry()
    await engine.stop()
    const { code, err } = await stream([eth, '--max-reconnects', '1']).ended
    expect(code).toBe(4)
    expect(err).toMatch(/attempt 1 of 1 in/)
    await engine.start()
    const { apiKey, endpoint, wsEndpoint } = engine
    const env = { API_KEY: apiKey, USER_SECRET: 'x', REST_URL: endpoint, WS_URL: wsEndpoint }
    expect(await runHere(['stream', eth], { env })).toMatchObject({ code: 3, out: '' })
  })

  test('says after --for and --timeout that reports came and none passed verification, and ends with 1', async () => {
    const signers = [1, 2, 3, 4].map(each => `0x${String(each).repeat(40)}`)
    const wrong = ['--signers', signers.join(), '--f', '1', '-q']
    const both = ['--for', '--timeout'].map(limit => stream([eth, ...wrong, limit, '2s']))
    await until(() => engine.connections === 2)
    publish(eth, 1)
    publish(eth, 2)
    for (const { ended } of both)
      expect(await ended).toEqual({
        code: 1,
        out: '',
        err: expect.stringMatching(
          /^sluice: 2 reports came, and none passed verification: report of feed .* is not verified: signature 0 is by none of the configured signers\n$/,
        ),
      })
  })

  test('says what differs between origins, or, where it verifies, what is forged', async () => {
    const plain = await connected(stream([eth, '--ha', '--json']), 2)
    const strict = stream([eth, '--ha', '--signers', inFolder('signers.json'), '--csv'])
    await until(() => engine.connections === 4)
    engine.origins[0]?.forge('value')
    publish(eth, 1)
    await until(
      () => /two different/.test(plain.output.err) && /is not verified/.test(strict.output.err),
    )
    const [one, other] = await Promise.all([stop(plain), stop(strict)])
    expect(linesOf(one.out)).toHaveLength(1)
    expect(one.err).toMatch(
      /sluice: ETH\/USD: two different reports of 2023-11-14 22:13:21Z, from origin 00[12] and origin 00[12]\n/,
    )
    const [head, row] = linesOf(other.out)
    expect(head).toMatch(/^feedID,name,/)
    expect(row?.split(',')[4]).toBe('3000')
    expect(other.err).toMatch(/sluice: origin 00[12]: report of feed 0x0003.* is not verified: /)
    expect(other.err).toMatch(/1 report, \d verified, /)
  })

  test('says once what verifies the reports, and how many a second', async () => {
    const signers = ['--signers', inFolder('signers.json')]
    const line =
      /sluice: verification: \w+ in (the event loop|\d threads?), about \d+ reports a second of f \d\n/
    const said = stream([eth, ...signers, '--json'])
    const quiet = stream([eth, ...signers, '--json', '--quiet'])
    const unverified = stream([eth, '--json'])
    await until(() => engine.connections === 3)
    for (let time = 1; time <= 20; time++) publish(eth, time)
    await until(() => line.test(said.output.err))
    for (let time = 21; time <= 40; time++) publish(eth, time)
    await until(() => linesOf(quiet.output.out).length === 40)
    await pause(500)
    const [one, ...others] = await Promise.all([said, quiet, unverified].map(stop))
    expect(one?.err.split(line)).toHaveLength(3)
    for (const { err } of others) expect(err).not.toContain('verification')
  })

  test('says which range is missing for good', async () => {
    const running = await connected(stream([eth, '--json']), 1)
    for (const [time, from] of [
      [1, 1],
      [3, 2],
      [9, 7],
    ] as const)
      publish(eth, time, from)
    hurry()
    await until(() => /gap from/.test(running.output.err))
    expect((await stop(running)).err).toMatch(
      /ETH\/USD: gap from 2023-11-14 22:13:24Z to 22:13:26Z \(3 s\): the service has no reports there/,
    )
  })

  test('goes on where the file of cursors ends, in order', async () => {
    const args = [eth, '--json', '--order', 'sorted', '--cursors', inFolder('cursors.json')]
    const first = await connected(stream(args), 1)
    publish(eth, 1)
    await until(() => linesOf(first.output.out).length === 1)
    await stop(first)
    expect(JSON.parse(readFileSync(inFolder('cursors.json'), 'utf8'))).toEqual({ [eth]: START + 1 })
    publish(eth, 2)
    publish(eth, 3)
    const second = await connected(stream(args), 1)
    publish(eth, 4)
    await until(() => linesOf(second.output.out).length === 3)
    const { out, err } = await stop(second)
    const times = linesOf(out).map(line => JSON.parse(line).observationsTimestamp)
    expect(times).toEqual([START + 2, START + 3, START + 4])
    expect(err).toMatch(/fetched later 2/)
  })

  test('with -q prints results alone, with -v all that happens', async () => {
    const quiet = stream([eth, '-q', '--json'])
    const verbose = stream([eth, '-v', '--json'])
    await until(() => engine.connections === 2 && /connected to/.test(verbose.output.err))
    publish(eth, 1)
    await until(() => linesOf(quiet.output.out).length + linesOf(verbose.output.out).length === 2)
    expect((await stop(quiet)).err).toBe('')
    const { err } = await stop(verbose)
    expect(err).toMatch(/client initialized\n.*1 report, /s)
  })

  test('on a terminal draws a table, and what happens above it', async () => {
    const terminals = ['stdout', 'stderr'] as const
    const running = stream([eth, btc], { terminals, columns: 60 })
    await until(() => /is connected/.test(running.output.out))
    publish(eth, 1)
    await until(() => /3000\.0000/.test(running.output.out))
    const { out } = await stop(running)
    expect(withoutControls(out)).toMatch(
      /feed +price +bid +ask +age\n *ETH\/USD +3000\.0000 .* \d+ h\n *BTC\/USD +waiting *\n/,
    )
  })

  test.each([
    [['NONE/USD'], '"NONE/USD" is no feed'],
    [['0x12'], 'the feed must be 0x and 64 hexadecimal digits, not "0x12"'],
    [[eth, '--jsn'], "unknown option '--jsn' (Did you mean --json?)"],
    [
      [eth, '--order', 'any'],
      "argument 'any' is invalid. Allowed choices are arrival, sorted, newest.",
    ],
    [[eth, '--signers', 'none.json'], '--signers can’t be read from none.json: ENOENT'],
    [[eth, '--signers', '0x12'], '--f must be given with a list of signers'],
    [[eth, '--f', '1'], '--f needs --signers'],
    [[eth, '--json', '--csv'], "option '--json' cannot be used with option '--csv'"],
    [[eth, '--max-reconnects', '-1'], "'-1' is invalid"],
    [[eth, '--decimals', '1.5'], "'1.5' is invalid"],
    [[eth, '--cursors', '/none/c.json'], '--cursors can’t be written to /none/c.json: ENOENT'],
    [
      [eth, '--cursors', join(__filename, 'c.json')],
      `--cursors can’t be written to ${join(__filename, 'c.json')}: ENOTDIR`,
    ],
  ])('%j ends with 2 and one line', async (args, message) => {
    const { out, err, code } = await stream(args).ended
    expect(err).toContain(message)
    expect(linesOf(err)).toHaveLength(1)
    expect([out, code]).toEqual(['', 2])
  })
})
