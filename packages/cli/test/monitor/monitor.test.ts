import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import { type DataEngineOptions, startDataEngine } from '@sluice/engine'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { startCommand } from '@sluice/test-support/command.js'
import { until } from '@sluice/test-support/waiting.js'
import { marketGuard } from 'sluice/plugins/market-guard'
import type { Section } from '../../monitor/board.js'
import { measurePreset } from '../../monitor/measured-client.js'
import type { FeedDetails, Message, OriginRow, RateDetails } from '../../monitor/messages.js'
import { monitorOf } from '../../monitor/monitor.js'
import { runHere } from '../support/cli.js'
import { follow } from '../support/monitor/follow.js'

const closers = closeAfterEach()
const eth = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const fine = `0x1003${'0'.repeat(60)}`

/** An engine that publishes when the test says so, a stream of it, and its monitor. */
async function start(options: DataEngineOptions = {}, isVerified = false, hasMarket = false) {
  const engine = await startDataEngine({
    feeds: [eth, fine],
    intervalMs: 0,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  const { apiKey, userSecret, endpoint, wsEndpoint, network } = engine
  const verify = isVerified ? { verify: { signers: network } } : {}
  const config = { apiKey, userSecret, endpoint, wsEndpoint, haMode: true, ...verify }
  const guard = marketGuard({ feeds: { [eth]: { maxAge: 3000 } } })
  const measured = measurePreset(config, hasMarket ? [guard] : [])
  closers.push(() => measured.client.close())
  const feeds = engine.feeds.map(feedID => ({ feedID, name: feedID === eth ? 'ETH/USD' : 'fine' }))
  const stream = measured.client.createStream([...engine.feeds])
  const source = { ...measured, feeds, name: 'test', wire: wsEndpoint }
  const monitor = await monitorOf(source, stream, { files: {} })
  closers.push(() => monitor.close())
  const reader = follow(Number(new URL(monitor.url).port))
  closers.push(reader.stop)
  /** Waits until the latest row of a section has these values. */
  async function shows(section: Section, expected: object, index?: number): Promise<void> {
    const matches = (): boolean => {
      const row = reader.latest(section, index)
      return row !== undefined && matchesRow(row, expected)
    }
    await until(matches).catch(() => undefined)
    expect(reader.latest(section, index)).toMatchObject(expected)
  }
  /** What the monitor answers to a path. */
  async function ask(path: string): Promise<{ readonly status: number; readonly body: unknown }> {
    const response = await fetch(new URL(path, monitor.url))
    const text = await response.text()
    return { status: response.status, body: response.ok ? JSON.parse(text) : text }
  }
  return { engine, stream, reader, shows, ask }
}

/** The latest row of each origin, by its name. */
function originsOf(messages: readonly Message[]): readonly OriginRow[] {
  const rows = messages.flatMap(({ origins = [] }) => origins)
  return [...new Map(rows.map(row => [row.name, row])).values()].sort((one, other) =>
    one.name.localeCompare(other.name),
  )
}

/** Whether a row has these values. */
function matchesRow(row: object, expected: object): boolean {
  try {
    expect(row).toMatchObject(expected)
    return true
  } catch {
    return false
  }
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
      /^origin 001 at 127\.0\.0\.1:\d+ is away: connection to .* was closed/,
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

test('says which feed the service is going to retire', async () => {
  const feeds = [eth, { feedID: fine, catalogue: { expectedDecommissionAt: '2126-12-01' } }]
  const { stream, reader, shows } = await start({ feeds })
  await stream.connect()
  // The catalogue is asked ten seconds after the first connection.
  await pause(10_000)
  const fact = '1 feed retires on 2126-12-01'
  await shows('verdict', { facts: expect.arrayContaining([fact]) })
  const events = reader.messages.flatMap(({ events: each = [] }) => each)
  const text = 'fine: it retires on 2126-12-01'
  expect(events).toContainEqual(expect.objectContaining({ kind: 'retiring', text }))
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

  test('is there with --market', async () => {
    const args = ['monitor', '--demo', '--market', '--port', '0']
    const { child, output, ended } = startCommand(args)
    await until(() => output.out.includes('Ctrl-C ends it'))
    const reader = follow(Number(/127\.0\.0\.1:(\d+)/.exec(output.out)?.[1]))
    closers.push(reader.stop)
    await until(() => reader.latest('markets', 0)?.tradable === true)
    child.kill('SIGINT')
    expect(await ended).toMatchObject({ code: 0, err: '' })
  })
})

describe('the details of a monitor', () => {
  test('are the rates, and a feed with its prices, gaps and conflicts, by its id or its name', async () => {
    const { engine, stream, reader, shows, ask } = await start({ origins: 2, history: 1 })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    const [, second] = engine.origins
    for (const price of [1n, 5n, 2n]) {
      engine.publish(fine, { price: price * 10n ** 18n + 1n })
      // Reports that are wider than a millisecond show that the reports of the feed link.
      await pause(50)
    }
    engine.publish(fine, {}, { streamed: false, stored: false })
    await pause(50)
    engine.publish(fine, { price: 3n * 10n ** 18n })
    await until(() => stream.getMetrics().gaps === 1, 30_000)
    second?.forge('value')
    engine.publish(fine, { price: 3n * 10n ** 18n })
    await shows('totals', { gaps: 1, conflicts: 1 })
    second?.forge(undefined)
    engine.publish(fine, { price: 4n * 10n ** 18n, bid: 3n * 10n ** 18n, ask: 5n * 10n ** 18n })
    await shows('feeds', { price: '4.0000' }, 1)
    const { status, body } = await ask('/feed?feed=FINE&range=15m')
    expect(status).toBe(200)
    const details = body as FeedDetails
    expect(details).toMatchObject({
      ...{ range: '15m', name: { feedID: fine, name: 'fine' }, row: { gaps: 1, state: 'live' } },
      quote: { price: '4', bid: '3', ask: '5', spread: '2', spreadBps: 5000 },
      gaps: [{ cause: 'upstream' }],
      conflicts: [
        {
          first: { origin: expect.stringMatching(/^origin 00[12]$/) },
          other: { origin: expect.stringMatching(/^origin 00[12]$/) },
        },
      ],
    })
    expect(details.prices.widthMs).toBe(7500)
    const known = (values: readonly (number | null)[]) => values.filter(value => value !== null)
    expect(Math.max(...known(details.prices.high))).toBeGreaterThanOrEqual(5)
    expect(known(details.gapCourse.mean).length).toBeGreaterThan(0)
    expect(details.reports.map(({ price }) => price)).toEqual(
      expect.arrayContaining(['1.000000000000000001', '5.000000000000000001']),
    )
    expect(details.changes.map(({ range, by }) => [range, by])).toEqual(
      ['5m', '15m', '1h', '6h'].map(range => [range, '2.999999999999999999']),
    )
    expect((await ask(`/feed?feed=${fine}`)).body).toMatchObject({ range: '5m' })
    await until(() => reader.messages.some(({ samples }) => samples !== undefined))
    const rates = (await ask('/rate?range=1h')).body as RateDetails
    expect([rates.range, rates.rates.widthMs]).toEqual(['1h', 30_000])
    // The test takes ten seconds, and may begin at the end of 30.
    expect([1, 2]).toContain(known(rates.rates.high).length)
    expect(await ask('/feed?feed=other')).toMatchObject({ status: 404 })
    expect(await ask('/feed?feed=__proto__')).toMatchObject({ status: 404 })
    expect(await ask('/rate?range=2h')).toMatchObject({ status: 400 })
    expect(await ask('/rate?range=toString')).toMatchObject({ status: 400 })
  }, 60_000)
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

  test('shows a local engine until Ctrl-C', async () => {
    const { child, output, ended } = startCommand(['monitor', '--demo', '--port', '0'])
    await until(() => output.out.includes('Ctrl-C ends it'))
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
    child.kill('SIGINT')
    expect(await ended).toMatchObject({ code: 0, err: '' })
  })
})
