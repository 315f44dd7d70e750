import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import {
  createClient,
  defaultPreset,
  type Plugin,
  type Report,
  type Status,
  type Stream,
  type StreamOptions,
} from '../../index.js'
import { hurry } from '../support/hurry.js'
import { memoryCursors } from '../support/memory-cursors.js'
import { feedID, type Service, startService } from '../support/service/service.js'
import { failureOf, pause, until } from '../support/waiting.js'

const feed = feedID(3, 1, { milliseconds: true })
let service: Service
const closers: (() => Promise<void>)[] = []
beforeAll(async () => {
  service = await startService({ feeds: [feed], signatures: 'dummy' })
})
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
  await until(() => service.open === 0)
})
afterAll(() => service.close())

function open(options: StreamOptions = {}, plugin?: Plugin) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const warnings: string[] = []
  const logger = { warn: (message: string) => void warnings.push(message) }
  const stack = defaultPreset({ apiKey, userSecret, logging: { logger } })
  const plugins = plugin === undefined ? stack : [plugin, ...stack]
  const client = createClient({ endpoint, wsEndpoint, plugins })
  closers.push(() => client.close())
  const stream = client.createStream(feed, options)
  const statuses: Status[] = []
  stream.on('status', status => void statuses.push(status))
  const slow = () => statuses.filter(({ type }) => type === 'backpressure')
  return { stream, slow, warnings }
}

const publish = (count: number): number[] =>
  Array.from({ length: count }, () => service.publish(feed).observed)
const timeOf = ({ observationsTimestamp }: Report): number => observationsTimestamp
const accepted = (stream: Stream, count: number) =>
  until(() => stream.getMetrics().accepted === count)

/** A handler, and the times of the reports that it was given. */
function listener() {
  const times: number[] = []
  return { times, handler: (report: Report): void => void times.push(timeOf(report)) }
}

/** The times of so many reports, by a loop that does not close the stream. */
async function loopOver(stream: Stream, count: number, each?: () => Promise<void>) {
  const iterator = stream[Symbol.asyncIterator]()
  const times: number[] = []
  while (times.length < count) {
    const { value } = await iterator.next()
    times.push(timeOf(value))
    await each?.()
  }
  return times
}

describe('what comes after connect, while nobody takes it,', () => {
  test('is given to the loop that begins later, before what comes then', async () => {
    const { stream } = open()
    await stream.connect()
    const times = publish(5)
    await pause(50)
    times.push(...publish(5))
    await accepted(stream, 10)
    const looping = loopOver(stream, 12)
    times.push(...publish(2))
    expect(await looping).toEqual(times)
  })

  test('is given to read, one call one report', async () => {
    const { stream } = open()
    await stream.connect()
    const times = publish(3)
    await accepted(stream, 3)
    const read = [await stream.read(), await stream.read(), await stream.read()]
    expect(read.map(timeOf)).toEqual(times)
  })

  test('is given to all handlers added together, after the call and before anything new', async () => {
    const { stream } = open()
    await stream.connect()
    const times = publish(5)
    await accepted(stream, 5)
    const [first, second] = [listener(), listener()]
    stream.on('report', first.handler)
    expect(first.times).toEqual([])
    stream.on('report', second.handler)
    times.push(...publish(5))
    await until(() => second.times.length === 10)
    expect(first.times).toEqual(times)
    expect(second.times).toEqual(times)
  })

  test('is given to a handler that another handler adds, in order', async () => {
    const { stream } = open({ queue: 3 })
    const { times, handler } = listener()
    stream.on('status', ({ type }) => {
      if (type === 'backpressure') stream.on('report', handler)
    })
    await stream.connect()
    const published = publish(9)
    await until(() => times.length === 9)
    expect(times).toEqual(published)
  })

  test('waits on where a handler takes one alone, and after a handler was removed', async () => {
    const { stream } = open()
    await stream.connect()
    const times = publish(4)
    await accepted(stream, 4)
    const once = listener()
    stream.once('report', once.handler)
    await pause(0)
    expect(once.times).toEqual(times.slice(0, 1))
    const { times: given, handler } = listener()
    stream.on('report', handler)
    await pause(0)
    expect(given).toEqual(times.slice(1))
    stream.off('report', handler)
    const more = publish(3)
    await accepted(stream, 7)
    expect(await loopOver(stream, 3)).toEqual(more)
    expect(given).toHaveLength(3)
  })

  test('holds the connections back when it fills the queue, with a status and advice in the log', async () => {
    const { stream, slow, warnings } = open({ queue: 16 })
    await stream.connect()
    const times = publish(300)
    await until(() => slow().length > 0)
    await pause(100)
    expect(slow()).toEqual([{ type: 'backpressure', queued: 16 }])
    expect(stream.getMetrics().accepted).toBeLessThan(200)
    const [advice] = warnings.filter(line => line.includes('wait to be taken'))
    expect(advice).toMatch(/paused.*report handler.*iterate.*queue: 0/)
    const { times: given, handler } = listener()
    stream.on('report', handler)
    await until(() => given.length === 300)
    expect(given).toEqual(times)
    expect(stream.getMetrics()).toMatchObject({ accepted: 300, dropped: 0, gaps: 0 })
  })

  test('comes again where the stream is closed, for its cursor stands before it', async () => {
    hurry()
    const cursors = memoryCursors()
    const first = open({ cursors })
    await first.stream.connect()
    const times = publish(6)
    await accepted(first.stream, 6)
    await first.stream.close()
    expect(cursors.saved[feed]).toBe((times[0] as number) - 1)
    const second = open({ cursors })
    const { times: given, handler } = listener()
    second.stream.on('report', handler)
    await second.stream.connect()
    await until(() => given.length >= 6)
    expect(given).toEqual(times)
    await second.stream.close()
    expect(cursors.saved[feed]).toBe(times.at(-1))
  })

  test('can be read when the stream has failed, and a handler added just before is given it', async () => {
    const { stream } = open({ maxReconnectAttempts: 0 })
    await stream.connect()
    const times = publish(4)
    await accepted(stream, 4)
    const { times: given, handler } = listener()
    stream.on('error', () => undefined)
    stream.once('report', handler)
    await pause(0)
    service.origin('001').disconnect()
    expect(await failureOf(stream.closed)).toMatchObject({ code: 'WS_GAVE_UP' })
    expect(given).toEqual(times.slice(0, 1))
    expect(await loopOver(stream, 3)).toEqual(times.slice(1))
  })
})

describe('with queue: 0', () => {
  test('nothing waits: plugins read every report, nothing is paused, and cursors move', async () => {
    const { times: seen, handler } = listener()
    const watch: Plugin = {
      name: 'watch',
      report: next => report => {
        handler(report)
        next(report)
      },
    }
    const cursors = memoryCursors()
    const { stream, slow, warnings } = open({ queue: 0, cursors }, watch)
    await stream.connect()
    const times = publish(100)
    await accepted(stream, 100)
    expect(seen).toEqual(times)
    expect(slow()).toEqual([])
    expect(warnings.filter(line => line.includes('wait'))).toEqual([])
    const later = listener()
    stream.on('report', later.handler)
    const [time] = publish(1)
    await until(() => later.times.length === 1)
    expect(later.times).toEqual([time])
    await stream.close()
    expect(cursors.saved[feed]).toBe(time)
  })

  test('reading and iterating are refused', async () => {
    const { stream } = open({ queue: 0 })
    const refusal = { name: 'ValidationError', message: expect.stringMatching(/^queue is 0/) }
    expect(await failureOf(stream.read())).toMatchObject(refusal)
    const loop = (async () => {
      for await (const _ of stream) break
    })()
    expect(await failureOf(loop)).toMatchObject(refusal)
  })
})

describe('beside a report handler', () => {
  test('a read gives the next report to come, and what comes after it holds nothing back', async () => {
    const cursors = memoryCursors()
    const { stream, slow } = open({ queue: 4, cursors })
    const { times, handler } = listener()
    stream.on('report', handler)
    await stream.connect()
    const published = publish(1)
    await until(() => times.length === 1)
    const reading = [stream.read(), stream.read()]
    published.push(...publish(50))
    expect((await Promise.all(reading)).map(timeOf)).toEqual(published.slice(1, 3))
    await until(() => times.length === 51)
    expect(times).toEqual(published)
    expect(slow()).toEqual([])
    // The reports that were read count as acknowledged when their handlers have returned.
    await stream.close()
    expect(cursors.saved[feed]).toBe(published.at(-1))
  })

  test('a loop is given every report too, and holds the handler back while it is behind', async () => {
    const { stream, slow } = open({ queue: 4 })
    const { times, handler } = listener()
    stream.on('report', handler)
    const looping = loopOver(stream, 60, () => pause(1))
    await stream.connect()
    const published = publish(60)
    await until(() => slow().length > 0)
    expect(await looping).toEqual(published)
    expect(times).toEqual(published)
  })
})
