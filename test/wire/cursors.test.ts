import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import type { StreamScope } from '../../client/index.js'
import { createClient, defaultPreset, type Plugin, type StreamOptions } from '../../index.js'
import { hurry } from '../support/hurry.js'
import { memoryCursors } from '../support/memory-cursors.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { failureOf, pause, until } from '../support/waiting.js'

beforeEach(() => hurry())

const feed = feedID(3, 1, { milliseconds: true })
const other = feedID(3, 2, { milliseconds: true })
const HOUR = 3_600_000

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

async function start(now: () => number = Date.now): Promise<Service> {
  const service = await startService({ feeds: [feed, other], signatures: 'dummy', now })
  closers.push(() => service.close())
  return service
}

/** A stream whose reports are taken at once, without `continuity` unless it is asked for, and its scope once it has connected. */
function open(service: Service, options: StreamOptions = {}, hasContinuity = false) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const scopes: StreamScope[] = []
  const look: Plugin = {
    name: 'look',
    report(next, scope) {
      if (scope.kind === 'stream') scopes.push(scope)
      return next
    },
  }
  const preset = defaultPreset({ apiKey, userSecret, retryDelay: 5 })
  const plugins = [look, ...preset.filter(({ name }) => hasContinuity || name !== 'continuity')]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const cursors = memoryCursors()
  const stream = client.createStream(feed, {
    cursors,
    saveInterval: 0,
    reconnectInterval: 200,
    maxReconnectAttempts: 1,
    ...options,
  })
  const times: number[] = []
  stream.on('error', () => undefined)
  stream.on('report', report => void times.push(report.observationsTimestamp))
  const saved = () => cursors.saved[feed]
  return { stream, scopes, times, cursors, saved }
}

describe('the present, beyond which no cursor goes,', () => {
  test.each([
    ['as this machine has it', 0],
    ['an hour later than this machine has it', HOUR],
    ['an hour earlier than this machine has it', -HOUR],
  ])('is that of the service: %s', async (_name, offset) => {
    const now = () => Date.now() + offset
    const service = await start(now)
    const { stream, scopes, times, saved } = open(service)
    await stream.connect()
    const scope = scopes[0] as StreamScope
    // The date of the answer has whole seconds.
    await until(() => Math.abs(scope.client.now() - now()) < 2000)
    const first = service.publish(feed).observed
    await until(() => saved() === first)
    service.publish(feed, { observed: now() + HOUR, validFrom: first + 1 })
    await until(() => times.length === 2)
    await pause(30)
    expect(saved()).toBe(first)
    const next = now()
    service.publish(feed, { observed: next, validFrom: first + 1 })
    await until(() => saved() === next)
  })
})

describe('the limit of a cursor', () => {
  test('is what a plugin says, until it says something else or nothing', async () => {
    const service = await start()
    const { stream, scopes, saved } = open(service)
    await stream.connect()
    const scope = scopes[0] as StreamScope
    const first = service.publish(feed).observed
    await until(() => saved() === first)
    scope.cursors.limit(feed, first + 1)
    const second = service.publish(feed, { observed: first + 5 }).observed
    await pause(30)
    expect(saved()).toBe(first)
    scope.cursors.limit(feed, first - 10)
    await until(() => saved() === first - 11)
    scope.cursors.limit(other, 5)
    scope.cursors.limit(feed, undefined)
    await until(() => saved() === second)
  })

  test('stays where a feed is unsubscribed, and is gone once it is subscribed again', async () => {
    const service = await start()
    const { stream, scopes, saved } = open(service)
    await stream.connect()
    const scope = scopes[0] as StreamScope
    const first = service.publish(feed).observed
    scope.cursors.limit(feed, first - 1)
    await until(() => saved() === first - 2)
    await stream.subscribe(other)
    await stream.unsubscribe(feed)
    scope.cursors.limit(feed, undefined)
    await pause(30)
    expect(saved()).toBe(first - 2)
    await stream.subscribe(feed)
    await until(() => saved() === first)
  })

  test('only falls while the stream is failing, and stays after that', async () => {
    const service = await start()
    const { stream, scopes, saved, times } = open(service)
    await stream.connect()
    const scope = scopes[0] as StreamScope
    const first = service.publish(feed).observed
    const second = service.publish(feed).observed
    await until(() => times.length === 2)
    scope.cursors.limit(feed, second)
    scope.events.on('ending', () => {
      scope.cursors.limit(feed, undefined)
      scope.cursors.limit(feed, second + 10)
      scope.cursors.limit(feed, first + 1)
    })
    scope.defer(() => scope.cursors.limit(feed, undefined))
    await service.stop()
    await failureOf(stream.closed)
    await pause(30)
    expect(saved()).toBe(first)
    await stream.close()
    expect(saved()).toBe(first)
  })

  test('is below what came when the queue had overflowed, and another stream is given that', async () => {
    const service = await start()
    const { stream, cursors } = open(service, { queue: 2, overflow: 'close' }, true)
    stream.removeAllListeners('report')
    await stream.connect()
    const begin = Date.now() - 1000
    const times = Array.from({ length: 6 }, (_, index) => begin + index)
    for (const observed of times) service.publish(feed, { observed })
    await failureOf(stream.closed)
    await stream.read()
    await stream.read()
    await stream.close()
    const again = open(service, { cursors }, true)
    await again.stream.connect()
    await until(() => again.times.length >= 5)
    expect(again.times.sort()).toEqual(times.slice(1))
  })
})
