import { describe, expect, test } from '@jest/globals'
import {
  createClient,
  decoders,
  dedup,
  haDiscovery,
  hmacAuth,
  retry,
  type StreamOptions,
  v3,
} from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { hurry } from '../support/hurry.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { failureOf, pause, until } from '../support/waiting.js'

const [a, b] = [1, 2].map(n => feedID(3, n, { milliseconds: true })) as [string, string]
const closers = closeAfterEach()

/** A service of so many origins, and a connected stream of feed a that nothing fetches missing reports for. */
async function open(origins: number, options: StreamOptions = {}) {
  const service: Service = await startService({
    feeds: [a, b],
    origins: ['001', '002'].slice(0, origins),
    signatures: 'dummy',
  })
  closers.push(() => service.close())
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [
      decoders(v3),
      dedup(),
      ...(origins > 1 ? [haDiscovery({ stagger: 0 })] : []),
      retry(),
      hmacAuth({ apiKey, userSecret }),
    ],
  })
  closers.push(() => client.close())
  const stream = client.createStream(a, options)
  const times: number[] = []
  stream.on('report', ({ feedID: id, observationsTimestamp: time }) => {
    if (id === a) times.push(time)
  })
  await stream.connect()
  await until(() => service.open === Math.min(origins, options.maxConnections ?? origins))
  return { service, stream, times }
}

describe('many changes of feeds in a row', () => {
  test.each([
    ['one connection, by default', 1, 18, 50],
    ['one connection, with a bound', 1, 4, 24],
    ['two origins, with a bound', 2, 6, 12],
  ])('over %s, open no more sockets than that', async (_name, origins, maxConnections, many) => {
    hurry(4)
    const options = maxConnections === 18 ? {} : { maxConnections }
    const { service, stream, times } = await open(origins, options)
    const published: number[] = []
    const publishing = setInterval(() => published.push(service.publish(a).observed), 10)
    const changes = Array.from({ length: many }, (_, index) =>
      index % 2 === 0 ? stream.subscribe(b) : stream.unsubscribe(b),
    )
    await Promise.all(changes)
    clearInterval(publishing)
    await until(() => times.length >= published.length)
    await pause(20)
    expect(times).toEqual(published)
    // The service may notice a close a little later.
    expect(service.mostOpen).toBeLessThanOrEqual(maxConnections + 1)
    const upgrades = service.requests.filter(({ upgrade }) => upgrade)
    expect(upgrades.filter(({ status }) => status !== 101)).toEqual([])
    expect(stream.feedIDs).toEqual([a])
    await until(() => service.open === origins)
  })
})

describe('maxConnections', () => {
  test('is kept by changes that wait for old connections', async () => {
    const { service, stream } = await open(1, { maxConnections: 2 })
    await stream.subscribe(b)
    await stream.unsubscribe(b)
    await stream.subscribe(b)
    expect(service.mostOpen).toBe(2)
  })

  test('has a change refused that it leaves no room for, and nothing changes', async () => {
    const { service, stream } = await open(2, { maxConnections: 3 })
    expect(await failureOf(stream.subscribe(b))).toMatchObject({
      name: 'ValidationError',
      message: expect.stringMatching(/maxConnections: the change of feeds takes 2 connections/),
    })
    expect(stream.feedIDs).toEqual([a])
    expect(service.mostOpen).toBe(2)
  })

  test('has a stream closed while a change waits reject that', async () => {
    const { stream } = await open(1, { maxConnections: 2 })
    await stream.subscribe(b)
    const waiting = failureOf(stream.unsubscribe(b))
    await stream.close()
    expect(await waiting).toMatchObject({ code: 'CLOSED' })
  })

  test('bounds the connections to origins as well', async () => {
    const { service, stream } = await open(2, { maxConnections: 1, reconnectInterval: 200 })
    const states = () => Object.values(stream.getMetrics().originStatus).sort()
    await until(() => states().join() === 'connected,reconnecting')
    expect(service.mostOpen).toBe(1)
  })

  test.each([0, 1.5, '2'])('%j is refused', value => {
    const client = createClient({
      endpoint: 'https://rest.example',
      wsEndpoint: 'wss://ws.example',
      plugins: [],
    })
    expect(() => client.createStream(a, { maxConnections: value as number })).toThrow(
      /maxConnections/,
    )
  })
})
