import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { createClient, type Status, type Stream, type StreamOptions } from '../../index.js'
import type { Report } from '../../report/report.js'
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

function open(options: StreamOptions = {}, config: object = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const warnings: string[] = []
  const logging = { logger: { warn: (message: string) => void warnings.push(message) } }
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, logging, ...config })
  closers.push(() => client.close())
  const cursors = memoryCursors()
  const stream = client.createStream(feed, { cursors, saveInterval: 0, ...options })
  const statuses: Status[] = []
  stream.on('status', status => void statuses.push(status))
  const slow = () => statuses.filter(({ type }) => type === 'backpressure')
  const saved = () => cursors.saved[feed]
  return { stream, cursors, saved, slow, warnings }
}

const publish = (count: number): number[] =>
  Array.from({ length: count }, () => service.publish(feed).observed)
const timeOf = ({ observationsTimestamp }: Report): number => observationsTimestamp

/** Keeps the reports that a handler is given. */
function collect(stream: Stream): Report[] {
  const reports: Report[] = []
  stream.on('report', report => void reports.push(report))
  return reports
}

describe('a store that another stream goes on from', () => {
  test('is not taken back by what the handlers of a closed stream still promise', async () => {
    const { stream, cursors } = open()
    const settle: (() => void)[] = []
    stream.on('report', () => new Promise<void>(resolve => void settle.push(resolve)))
    await stream.connect()
    publish(2)
    await until(() => settle.length === 2)
    await stream.close()

    const next = open({ cursors })
    const reports = collect(next.stream)
    await next.stream.connect()
    const [last = 0] = publish(1)
    await until(() => cursors.saved[feed] === last && reports.length >= 1)
    for (const each of settle) each()
    await pause(50)
    expect(cursors.saved[feed]).toBe(last)
  })

  test('is not written by two streams in turns: the first says that it saves no more', async () => {
    const { stream, cursors } = open()
    collect(stream)
    const errors: Error[] = []
    stream.on('error', error => void errors.push(error))
    await stream.connect()
    const next = open({ cursors })
    collect(next.stream)
    await next.stream.connect()
    const [last = 0] = publish(1)
    await until(() => cursors.saved[feed] === last && errors.length > 0)
    expect(errors.map(error => error.message)).toEqual([
      'cursors are no longer saved: another stream goes on from the same store, and each needs its own',
    ])
  })
})

/** What a stream that begins with what another one has saved is given. */
async function resumed(options: StreamOptions, count: number): Promise<number[]> {
  const { stream } = open(options)
  const reports = collect(stream)
  await stream.connect()
  await until(() => reports.length >= count)
  await stream.close()
  return reports.map(timeOf)
}

describe('what a handler promises', () => {
  test('is waited for before the cursor passes its report, whatever settles first', async () => {
    const { stream, saved } = open()
    const settle: (() => void)[] = []
    stream.on('report', () => new Promise<void>(resolve => void settle.push(resolve)))
    stream.on('report', () => undefined)
    await stream.connect()
    const [first = 0, second = 0, third = 0] = publish(3)
    await until(() => settle.length === 3)
    await pause(20)
    expect(saved()).toBe(first - 1)
    settle[1]?.()
    await pause(20)
    expect(saved()).toBe(first - 1)
    settle[0]?.()
    await until(() => saved() === second)
    settle[2]?.()
    await until(() => saved() === third)
  })

  test('is settled, too, when it is broken: that is an error, and the cursor goes on', async () => {
    const { stream, saved } = open()
    const errors: unknown[] = []
    stream.on('error', error => void errors.push(error))
    stream.on('report', () => Promise.reject(new Error('mine')))
    await stream.connect()
    const [time] = publish(1)
    await until(() => saved() === time)
    expect(errors).toMatchObject([{ message: 'mine' }])
  })

  test('and a loop beside the handler have both to be done with a report', async () => {
    const { stream, saved } = open()
    const settle: (() => void)[] = []
    stream.on('report', () => new Promise<void>(resolve => void settle.push(resolve)))
    const iterator = stream[Symbol.asyncIterator]()
    const reading = iterator.next()
    await stream.connect()
    const [first = 0] = publish(2)
    await reading
    await until(() => settle.length === 2)
    settle[0]?.()
    await pause(20)
    expect(saved()).toBe(first - 1)
    await iterator.next()
    await until(() => saved() === first)
  })

  test('holds the connections back when it is not settled for too many reports', async () => {
    const { stream, saved, slow, warnings } = open({ queue: 8, overflow: 'drop-oldest' })
    const settle: (() => void)[] = []
    stream.on('report', () => new Promise<void>(resolve => void settle.push(resolve)))
    await stream.connect()
    const times = publish(200)
    await until(() => slow().length > 0)
    await pause(50)
    const { length } = settle
    expect(length).toBeLessThan(150)
    expect(warnings.join()).toMatch(
      /8 reports were given out and are not acknowledged, since promises of handlers/,
    )
    while (settle.length < 200 || saved() !== times.at(-1)) {
      for (const each of settle) each()
      await pause(5)
    }
    expect(stream.getMetrics()).toMatchObject({ accepted: 200, dropped: 0, gaps: 0 })
  })
})

describe("with acknowledge: 'manual'", () => {
  test('the cursor moves as far as all is acknowledged, in whatever order that is done', async () => {
    hurry()
    const { stream, saved, cursors } = open({ acknowledge: 'manual' })
    const reports = collect(stream)
    await stream.connect()
    const times = publish(5)
    await until(() => reports.length === 5)
    for (const index of [4, 1, 2]) reports[index]?.acknowledge()
    await pause(20)
    expect(saved()).toBe((times[0] as number) - 1)
    reports[0]?.acknowledge()
    reports[0]?.acknowledge()
    // Any time from the third report on, before the fourth, says the same.
    const isPastThird = (time = 0) => time >= (times[2] as number) && time < (times[3] as number)
    await until(() => isPastThird(saved()))
    await stream.close()
    expect(isPastThird(saved())).toBe(true)
    // The last one comes again as well: it cannot be known for taken while one before it is not.
    expect(await resumed({ cursors }, 2)).toEqual(times.slice(3))
  })

  test('what is never acknowledged comes again, the very first report too', async () => {
    hurry()
    const { stream, cursors } = open({ acknowledge: 'manual' })
    const reports = collect(stream)
    await stream.connect()
    const times = publish(2)
    await until(() => reports.length === 2)
    reports[1]?.acknowledge()
    await stream.close()
    expect(await resumed({ cursors }, 2)).toEqual(times)
  })

  test('a loop acknowledges, too, and may do so after it was left and the stream closed', async () => {
    const { stream, saved } = open({ acknowledge: 'manual' })
    await stream.connect()
    const times = publish(3)
    const reports: Report[] = []
    for await (const report of stream) if (reports.push(report) === 3) break
    expect(saved()).toBe((times[0] as number) - 1)
    for (const report of reports) report.acknowledge()
    await until(() => saved() === times[2])
  })

  test('a handler may acknowledge at once', async () => {
    const { stream, saved } = open({ acknowledge: 'manual', queue: 2 })
    stream.on('report', report => report.acknowledge())
    await stream.connect()
    const times = publish(50)
    await until(() => saved() === times.at(-1))
  })

  test('the connections are paused while too many delivered reports are not taken, by whatever consumer', async () => {
    for (const take of ['handler', 'loop'] as const) {
      const { stream, slow, warnings } = open({ acknowledge: 'manual', queue: 8 })
      const reports: Report[] = []
      if (take === 'handler') stream.on('report', report => void reports.push(report))
      await stream.connect()
      const times = publish(200)
      if (take === 'loop') {
        void (async () => {
          for await (const report of stream) reports.push(report)
        })()
      }
      await until(() => warnings.some(line => line.includes('are not acknowledged')))
      await pause(50)
      expect(slow().length).toBeGreaterThan(0)
      expect(reports.length).toBeGreaterThanOrEqual(8)
      expect(reports.length).toBeLessThan(150)
      for (let done = 0; done < 200; ) {
        for (; done < reports.length; done++) reports[done]?.acknowledge()
        await pause(1)
      }
      expect(reports.map(timeOf)).toEqual(times)
      await stream.close()
    }
  })

  test('a report that was dropped is no longer waited for, once it is announced', async () => {
    const options = { acknowledge: 'manual', queue: 2, overflow: 'drop-oldest' } as const
    const { stream, saved } = open(options, { continuity: { order: 'arrival' } })
    const gaps: { from: number; to: number }[] = []
    stream.on('gap', gap => void gaps.push(gap))
    await stream.connect()
    const times = publish(6)
    await until(() => stream.getMetrics().accepted === 6)
    const reports = collect(stream)
    await until(() => reports.length === 2)
    for (const report of reports) report.acknowledge()
    await until(() => saved() === times[5])
    expect(gaps).toMatchObject([{ from: expect.any(Number), to: times[3], cause: 'overflow' }])
  })

  test('a connection that cannot be paused ends the stream when twice as many are given out', async () => {
    const { connectSocket } = await import('../../client/transport/socket.js')
    const { stream } = open(
      { acknowledge: 'manual', queue: 4 },
      {
        connect: async (...given: Parameters<typeof connectSocket>) => {
          const { ping, close, terminate } = await connectSocket(...given)
          return { ping, close, terminate }
        },
      },
    )
    const reports = collect(stream)
    stream.on('error', () => undefined)
    await stream.connect()
    publish(20)
    expect(await failureOf(stream.closed)).toMatchObject({
      code: 'OVERFLOW',
      message: expect.stringMatching(/8 reports that were given out/),
    })
    expect(reports.length).toBeLessThanOrEqual(8)
  })

  test.each([
    [{ acknowledge: 'auto' }, "acknowledge must be 'automatic' or 'manual', not 'auto'"],
    [{ acknowledge: 'manual', queue: 0 }, "acknowledge must be 'automatic' where queue is 0"],
  ])('%j is refused', (options, message) => {
    expect(() => open(options as StreamOptions)).toThrow(message)
  })
})

test('without cursors, and without being asked for, an acknowledgement does nothing', async () => {
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  closers.push(() => client.close())
  publish(1)
  const report = await client.getLatestReport(feed)
  report.acknowledge()
  report.acknowledge()
})
