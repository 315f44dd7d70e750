import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { type Config, createClient, DEFAULT_CONFIG, endpoints, Stream } from '../../index.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { until } from '../support/waiting.js'

const feed = feedID(3)
let service: Service
const closers: (() => Promise<void>)[] = []

beforeAll(async () => {
  service = await startService({ feeds: [feed] })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  service.heal()
})
afterAll(() => service.close())

function configOf(config: Partial<Config> = {}): Config {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  return { apiKey, userSecret, endpoint, wsEndpoint, ...config }
}

function open(config: Partial<Config> = {}) {
  const client = createClient(configOf(config))
  closers.push(() => client.close())
  const stream = client.createStream(feed, { reconnectInterval: 200, maxReconnectAttempts: 20 })
  stream.on('error', () => undefined)
  return stream
}

/** What the handlers of these events are given, with the name. */
function record(
  stream: ReturnType<typeof open>,
  names: readonly Parameters<typeof stream.on>[0][],
) {
  const seen: unknown[][] = []
  for (const name of names)
    stream.on(name, (...given: unknown[]) => void seen.push([name, ...given]))
  return seen
}

test('an origin is a URL everywhere, with its id beside it', async () => {
  const calls: string[] = []
  const stream = open({
    haMode: true,
    connectionStatusCallback: (_isConnected, _host, origin) => void calls.push(origin),
  })
  const seen = record(stream, ['status', 'reconnecting', 'report', 'connection-lost'])
  await stream.connect()
  await until(() => stream.getMetrics().activeConnections === 2)
  const urls = ['001', '002'].map(id => `${service.wsEndpoint}#${id}`)
  service.publish(feed, { to: ['002'] })
  await until(() => seen.some(([name]) => name === 'report'))
  service.origin('001').disconnect('reset')
  await until(() => seen.some(([name]) => name === 'reconnecting'))
  await until(() => stream.getMetrics().activeConnections === 2)

  expect(new Set(calls)).toEqual(new Set(urls))
  const { originStatus, origins } = stream.getMetrics()
  expect(Object.keys(originStatus).sort()).toEqual(urls)
  expect(
    Object.entries(origins)
      .map(([url, each]) => [url, each.originID])
      .sort(),
  ).toEqual(urls.map(url => [url, url.slice(-3)]))
  expect(stream.getOrigins().sort()).toEqual(urls)
  expect(stream.getConnectionType()).toBe('multiple')
  for (const url of urls) expect(new URL(url).host).toBe(new URL(service.wsEndpoint).host)
  const facts = { origin: urls[0], originID: '001', host: new URL(service.wsEndpoint).host }
  for (const name of ['reconnecting', 'connection-lost'])
    expect(seen.find(each => each[0] === name)?.[1]).toMatchObject(facts)
  expect(seen.find(each => each[0] === 'report')?.[1]).toMatchObject({
    origin: urls[1],
    originID: '002',
  })
})

test('two URLs of one host are two origins', async () => {
  const { wsEndpoint } = service
  const stream = open({ haMode: true, wsEndpoint: `${wsEndpoint},${wsEndpoint}/other` })
  stream.connect().catch(() => undefined)
  await until(() => stream.getOrigins().length === 2)
  expect(stream.getOrigins()).toEqual([wsEndpoint, `${wsEndpoint}/other`])
})

describe('what is lost', () => {
  test('is told by events, and nothing is given where there is nothing to give', async () => {
    const stream = open()
    const seen = record(stream, [
      'connected',
      'disconnected',
      'all-connections-lost',
      'connection-lost',
      'connection-restored',
    ])
    await stream.connect()
    expect(stream.getConnectionStates()).toEqual({ 'conn-0': 'connected' })
    expect(stream.getConnectionType()).toBe('single')
    const [before] = stream.getConnectionDetails()
    expect(before).toMatchObject({
      id: 'conn-0',
      origin: service.wsEndpoint,
      state: 'connected',
      reconnectAttempts: 0,
      lastError: undefined,
    })
    for (const origin of service.origins) origin.disconnect('reset')
    await until(() => seen.some(([name]) => name === 'connection-restored'))
    expect(seen.map(([name, ...given]) => [name, given.length])).toEqual([
      ['connected', 0],
      ['connection-lost', 2],
      ['disconnected', 0],
      ['all-connections-lost', 0],
      ['connection-restored', 1],
      ['connected', 0],
    ])
    const [, details, error] = seen[1] ?? []
    expect(details).toMatchObject({ id: 'conn-0', state: 'disconnected', lastError: error })
    expect(error).toBeInstanceOf(Error)
    expect(seen[4]?.[1]).toMatchObject({ id: 'conn-0', state: 'connected', reconnectAttempts: 0 })
  })

  test('of two is not all until the second goes', async () => {
    const stream = open({ haMode: true })
    const seen = record(stream, ['all-connections-lost', 'connection-lost'])
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    await service.origin('001').kill()
    await until(() => seen.length === 1)
    await service.origin('002').kill()
    await until(() => seen.length === 3)
    expect(seen.map(([name]) => name)).toEqual([
      'connection-lost',
      'connection-lost',
      'all-connections-lost',
    ])
    await Promise.all(service.origins.map(origin => origin.restart()))
  })
})

describe('a stream is an emitter', () => {
  const report = { feedID: feed }

  test('that adds, calls, counts and removes handlers', () => {
    const stream = open()
    const calls: unknown[] = []
    const handler = function (this: unknown, ...given: unknown[]): void {
      calls.push([this === stream, ...given])
    }
    expect(stream.addListener('report', handler)).toBe(stream)
    stream.once('report', handler)
    expect(stream.listenerCount('report')).toBe(2)
    expect(stream.listeners('report')).toEqual([handler, handler])
    expect(stream.eventNames()).toEqual(['error', 'report'])
    expect(stream.emit('report', report)).toBe(true)
    expect(stream.emit('report', report)).toBe(true)
    expect(calls).toEqual(Array(3).fill([true, report]))
    expect(stream.removeListener('report', handler)).toBe(stream)
    expect(stream.emit('report', report)).toBe(false)
    expect(
      stream
        .on('gap', () => undefined)
        .removeAllListeners('gap')
        .eventNames(),
    ).toEqual(['error'])
    expect(stream.removeAllListeners().eventNames()).toEqual([])
    expect(stream.listenerCount('report')).toBe(0)
  })

  test('whose handlers cannot harm who emits', () => {
    const stream = open()
    const errors: unknown[] = []
    stream.on('error', error => void errors.push(error))
    stream.on('report', () => {
      throw new Error('mine')
    })
    expect(stream.emit('report', report)).toBe(true)
    expect(errors).toEqual([new Error('mine')])
  })

  test('that the platform can wait for', async () => {
    const stream = open()
    const [, given] = await Promise.all([
      stream.connect(),
      once(stream as unknown as NodeJS.EventEmitter, 'connected'),
    ])
    expect(given).toEqual([])
  })
})

test('Stream knows a stream, and makes one', async () => {
  expect(open()).toBeInstanceOf(Stream)
  expect({}).not.toBeInstanceOf(Stream)
  expect(null).not.toBeInstanceOf(Stream)
  const stream = new Stream(configOf(), [feed], { maxReconnectAttempts: 1 })
  closers.push(() => stream.close())
  expect(stream).toBeInstanceOf(Stream)
  await stream.connect()
  expect(stream.getMetrics().activeConnections).toBe(1)
})

test('of several URLs the first is connected to, with a warning, until haMode is set', async () => {
  const lines: string[] = []
  const wsEndpoint = ['001', '002'].map(name => service.wsEndpointOf(name)).join(',')
  const logging = { logger: { warn: (line: string) => void lines.push(line) } }
  const one = open({ wsEndpoint, logging })
  await one.connect()
  expect(one.getOrigins()).toEqual([service.wsEndpointOf('001')])
  expect(lines).toEqual([expect.stringContaining('only the first URL of wsEndpoint')])
  const both = open({ wsEndpoint, logging, haMode: true })
  await both.connect()
  await until(() => both.getMetrics().activeConnections === 2)
  expect(lines).toHaveLength(1)
})

test('discovery works with an API key of one letter', async () => {
  service.keys.set('0', service.userSecret)
  const stream = open({ haMode: true, apiKey: '0' })
  await stream.connect()
  await until(() => stream.getMetrics().activeConnections === 2)
  expect(stream.getConnectionType()).toBe('multiple')
})

test('DEFAULT_CONFIG needs no more than credentials', () => {
  expect(DEFAULT_CONFIG).toMatchObject({
    ...endpoints.testnet,
    timeout: 30_000,
    retryAttempts: 3,
    retryDelay: 1000,
    haMode: false,
    haConnectionTimeout: 10_000,
  })
  expect(() => createClient({ ...DEFAULT_CONFIG, apiKey: 'k', userSecret: 's' })).not.toThrow()
})
