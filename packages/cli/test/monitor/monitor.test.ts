import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { startCommand } from '@sluice/test-support/command.js'
import { hurry } from '@sluice/test-support/hurry.js'
import { until } from '@sluice/test-support/waiting.js'
import type { Message, OriginRow } from '../../monitor/messages.js'
import { runHere } from '../support/cli.js'
import { follow } from '../support/monitor/follow.js'
import { eth, fine, startMonitored } from '../support/monitor/monitored.js'

const closers = closeAfterEach()
const start = (...given: Given) => startMonitored(closers, ...given)
type Given = Parameters<typeof startMonitored> extends [unknown, ...infer Rest] ? Rest : never

/** The latest row of each origin, by its name. */
function originsOf(messages: readonly Message[]): readonly OriginRow[] {
  const rows = messages.flatMap(({ origins = [] }) => origins)
  return [...new Map(rows.map(row => [row.name, row])).values()].sort((one, other) =>
    one.name.localeCompare(other.name),
  )
}

describe('a monitor', () => {
  test('shows a stream before it has a connection, with its reports, and after its end', async () => {
    const { engine, stream, shows } = await start()
    await shows('verdict', { level: 'starting', headline: 'Connecting' })
    await shows('names', { feedID: fine, name: 'fine' }, 1)
    await shows('feeds', { state: 'waiting', reports: 0 }, 0)
    await stream.connect()
    await shows('verdict', { level: 'starting', headline: 'Waiting for first reports' })
    engine.publish(eth, { price: 3851_421_200_000_000_000_000n })
    engine.publish(fine, { price: -5n * 10n ** 17n })
    await shows('feeds', { state: 'live', price: '3851.42', reports: 1 }, 0)
    await shows('feeds', { state: 'live', price: '-0.500000', reports: 1 }, 1)
    await shows('verdict', {
      level: 'ok',
      facts: ['2 feeds, all live', '1 of 1 origin', 'no gaps'],
    })
    await shows('totals', { accepted: 2, gaps: 0 })
    await shows('origins', { status: 'connected', open: 1, connections: 1, received: 2, first: 2 })
    await stream.close()
    await shows('verdict', { level: 'down', headline: 'The stream has ended: it was closed' })
  })

  test('shows the newest price, whichever report came last, and counts what is late and twice', async () => {
    const { engine, stream, shows } = await start({ origins: 2 })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    const [, second] = engine.origins
    second?.lag(1)
    for (const units of [1n, 2n, 3n]) engine.publish(fine, { price: units * 10n ** 18n })
    await shows('feeds', { price: '3.0000', reports: 3 }, 1)
    await shows('totals', { accepted: 3, deduplicated: 2 })
    second?.lag(0)
    await shows('totals', { accepted: 3, deduplicated: 3 })
    await shows('stack', { name: 'dedup', reports: { in: 6, out: 3 } }, 3)
    await shows('stack', { name: 'continuity', reports: { in: 3, out: 3 } }, 2)
  })

  test('shows a lost origin, a conflict and a rejected message', async () => {
    const { engine, stream, reader, shows } = await start({ origins: 2 })
    await stream.connect()
    hurry(5)
    await until(() => stream.getMetrics().activeConnections === 2)
    for (const feedID of engine.feeds) engine.publish(feedID)
    await shows('verdict', { level: 'ok', needs: [] })
    await until(() => originsOf(reader.messages).every(row => row.roundTripMs !== undefined))
    const [first, second] = engine.origins
    second?.forge('value')
    engine.publish(fine)
    await shows('totals', { conflicts: 1 })
    const fromBoth = /^fine: two different reports of .+, from origin 00[12] and origin 00[12]$/
    await shows('events', { kind: 'conflict', text: expect.stringMatching(fromBoth) })
    second?.forge(undefined)
    engine.send('no report', fine)
    await shows('totals', { errors: 2 })
    const errors = reader.messages
      .flatMap(({ events = [] }) => events)
      .filter(({ kind }) => kind === 'error')
      .map(({ text }) => text.replace(/ of \d+ bytes/, ''))
    expect(errors.sort()).toEqual(
      ['001', '002'].map(id => `origin ${id}: a message is rejected: it is not JSON in UTF-8`),
    )
    const before = Date.now()
    await first?.kill()
    await shows('verdict', {
      level: 'degraded',
      facts: ['2 feeds, all live', '1 of 2 origins', 'no gaps', '1 conflict in 5 minutes'],
    })
    const [need] = reader.latest('verdict')?.needs ?? []
    expect(need?.text).toMatch(
      /^origin 001 at 127\.0\.0\.1:\d+ is away: (connection to .* was closed|answered 502)/,
    )
    expect(need?.since).toBeGreaterThanOrEqual(before)
    expect(need?.since).toBeLessThanOrEqual(Date.now())
    const [lost] = originsOf(reader.messages)
    expect(lost).toMatchObject({ name: '001', awaySince: need?.since })
    expect(lost).not.toHaveProperty('roundTripMs')
    const kinds = new Set(
      reader.messages.flatMap(({ events = [] }) => events.map(({ kind }) => kind)),
    )
    expect([...kinds]).toEqual(expect.arrayContaining(['conflict', 'error', 'connected', 'lost']))
    await first?.restart()
    await until(() => stream.getMetrics().activeConnections === 2)
    await shows('verdict', { facts: expect.arrayContaining(['2 of 2 origins']) })
    for (const origin of originsOf(reader.messages)) expect(origin).not.toHaveProperty('awaySince')
  })

  test('shows what verify has stopped', async () => {
    const { engine, stream, shows } = await start({}, true)
    await stream.connect()
    engine.publish(eth)
    await shows('feeds', { reports: 1 }, 0)
    engine.publish(fine, {}, { forged: 'signature', stored: false })
    await shows('stack', { name: 'verify', reports: { in: 2, out: 1 } }, 4)
    await shows('feeds', { state: 'waiting', reports: 0 }, 1)
    await shows('events', { kind: 'error', text: expect.stringMatching(/^origin 001: .*fine/) })
  })

  test('shows a feed that may not be read as refused, and one that is quiet as stale', async () => {
    const engine = { feeds: [eth, { feedID: fine, entitled: false }] }
    const { stream, engine: running, shows } = await start(engine)
    await stream.connect()
    running.publish(eth)
    await shows('feeds', { state: 'refused' }, 1)
    await shows('verdict', { level: 'degraded' })
    stream.emit('status', { type: 'stale', feedIDs: [eth], staleMs: 1 })
    await shows('feeds', { state: 'stale' }, 0)
    stream.emit('status', { type: 'fresh', feedIDs: [eth] })
    await shows('feeds', { state: 'live' }, 0)
  })
})

describe('the market of a monitor', () => {
  const price = 4n * 10n ** 18n

  test('says whether each feed may be traded, why not, and since when', async () => {
    const { engine, stream, reader, shows, ask } = await start({}, false, true)
    const before = Date.now()
    const none = { tradable: false, reason: 'no-report', text: 'no report has come yet' }
    await shows('markets', none, 0)
    await shows('markets', none, 1)
    await shows('verdict', { facts: expect.arrayContaining(['0 of 2 tradable']) })
    await stream.connect()
    engine.publish(eth, { price, bid: price, ask: price })
    engine.publish(fine, { price, bid: 2n * price, ask: price })
    await shows('markets', { tradable: true, caution: false, reason: 'open' }, 0)
    const crossed = { tradable: false, reason: 'crossed', text: 'the bid is above the ask' }
    await shows('markets', crossed, 1)
    await shows('verdict', { level: 'ok', facts: expect.arrayContaining(['1 of 2 tradable']) })
    const since = reader.latest('markets', 1)?.since ?? 0
    expect(since).toBeGreaterThanOrEqual(before - 1000)
    expect(since).toBeLessThanOrEqual(Date.now() + 1000)
    expect((await ask('/feed?feed=fine')).body).toMatchObject({ market: { ...crossed, since } })
    // A feed becomes stale in silence.
    await shows('markets', { tradable: false, reason: 'stale' }, 0)
    await stream.close()
    const ended = { tradable: false, reason: 'no-report', text: 'the stream has ended' }
    await shows('markets', ended, 0)
    await shows('markets', ended, 1)
  })

  test('says that a feed that may not be read can’t be traded', async () => {
    const feeds = [eth, { feedID: fine, entitled: false }]
    const { engine, stream, shows } = await start({ feeds }, false, true)
    await stream.connect()
    engine.publish(eth, { price, bid: price, ask: price })
    await shows('markets', { tradable: true }, 0)
    await shows('markets', { tradable: false, text: 'the feed may not be read' }, 1)
  })

  test('is not there without a market guard', async () => {
    const { engine, stream, reader, shows, ask } = await start()
    await stream.connect()
    engine.publish(eth)
    await shows('feeds', { state: 'live' }, 0)
    expect(reader.latest('markets')).toBeUndefined()
    expect((await ask('/feed?feed=ETH/USD')).body).not.toHaveProperty('market')
  })
})

describe('sluice monitor', () => {
  test.each([
    [['--port', '70000'], '--port'],
    [['--demo', '--nats', 'nats://127.0.0.1:1'], '--nats'],
    [['--demo', '--ha'], '--ha'],
    [['--nats', 'nats://user:hunter2@127.0.0.1'], '--nats must have no user name'],
    [['ETH/USD'], 'API_KEY and USER_SECRET must be set'],
    [['0x12', '--demo'], '0x12'],
    [['--stale', '-1', '--demo'], '--stale'],
    [['--f', '1', '--demo'], '--f needs --signers'],
  ])('%j ends with 2 and a line that names what is wrong', async (args, named) => {
    const { code, out, err } = await runHere(['monitor', ...args])
    expect([code, out]).toEqual([2, ''])
    expect(err).toContain(named)
    expect(err.trim().split('\n')).toHaveLength(1)
    expect(err).not.toContain('hunter2')
  })

  test('says that its port is in use', async () => {
    const server = createServer()
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    closers.push(() => server.close())
    const port = String((server.address() as AddressInfo).port)
    const { code, err } = await startCommand(['monitor', '--demo', '--port', port]).ended
    expect([code, err]).toEqual([
      2,
      `sluice: --port ${port} of 127.0.0.1 can’t be listened on: it is in use\n`,
    ])
  })

  test('shows a local engine and its market until Ctrl-C', async () => {
    const args = ['monitor', '--demo', '--market', '--port', '0']
    const { child, output, ended, shows } = startCommand(args)
    await shows(/Ctrl-C ends it/)
    const [, url = ''] = /^the monitor is at (http:\/\/127\.0\.0\.1:\d+\/)\n/.exec(output.out) ?? []
    const page = await fetch(url)
    expect(await page.text()).toContain('<title>sluice monitor</title>')
    let size = 0
    for (const file of ['', 'page.js', 'page.css', 'icon.svg']) {
      const response = await fetch(url + file)
      expect([file, response.status]).toEqual([file, 200])
      size += gzipSync(Buffer.from(await response.arrayBuffer())).byteLength
    }
    // The size of the day and about 15 % more. Grow it on purpose.
    expect(size).toBeLessThan(43_000)
    const reader = follow(Number(new URL(url).port))
    closers.push(reader.stop)
    await until(() => reader.latest('verdict')?.facts[1] === '4 of 4 origins')
    await until(() => reader.latest('markets', 0)?.tradable === true)
    child.kill('SIGINT')
    expect(await ended).toMatchObject({ code: 0, err: '' })
  })
})
