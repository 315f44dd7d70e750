import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import fc from 'fast-check'
import {
  Backlog,
  type BacklogOptions,
  type BacklogOwner,
  type ReportReader,
} from '../../../client/stream/backlog.js'
import { FlowControl } from '../../../client/stream/connection/connections.js'
import { Cursors } from '../../../client/stream/cursors.js'
import type { OverflowPolicy } from '../../../client/stream/options.js'
import type { DataStreamsError } from '../../../core/errors.js'
import { createDecoderTable } from '../../../report/decoder.js'
import type { Gap } from '../../../report/gaps.js'
import { Report } from '../../../report/report.js'
import { inForm } from '../../support/tier.js'

// A gap is announced by a timer at the latest.
beforeEach(
  () => void jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] }),
)
afterEach(() => void jest.useRealTimers())

const table = createDecoderTable([], {})

/** A report of a feed that holds for [from, to]. */
function reportOf(feedID: string, to: number, from = to): Report {
  return new Report(feedID, '0x', from, to, 'here', 'live', table)
}

const name = ({ feedID, observationsTimestamp }: Report) => `${feedID}${observationsTimestamp}`

interface Options extends Partial<BacklogOptions> {
  readonly canPause?: boolean
  readonly onReport?: (report: Report) => void
}

/** A backlog with everything it tells its stream, and a handler that can be put in and taken out. */
function open(
  overflow: OverflowPolicy,
  size: number,
  { canPause = true, onReport, ...options }: Options = {},
) {
  const flowControl = new FlowControl()
  const socket = { isPaused: false, changes: 0 }
  function setPaused(isPaused: boolean): void {
    socket.isPaused = isPaused
    socket.changes++
  }
  flowControl.add({ canPause, pause: () => setPaused(true), resume: () => setPaused(false) })
  const seen = {
    given: [] as string[],
    backpressure: [] as number[],
    dropped: [] as string[],
    gaps: [] as Gap[],
    acknowledged: [] as string[],
    unacknowledged: [] as string[],
    overflowed: [] as DataStreamsError[],
  }
  const handler = { isThere: false }
  const owner: BacklogOwner = {
    backpressure: queued => void seen.backpressure.push(queued),
    dropped: report => void seen.dropped.push(name(report)),
    gap: gap => void seen.gaps.push(gap),
    arrived: () => undefined,
    acknowledged: report => void seen.acknowledged.push(name(report)),
    unacknowledged: report => void seen.unacknowledged.push(name(report)),
    overflowed(error) {
      seen.overflowed.push(error)
      backlog.end(error)
    },
  }
  const backlog = new Backlog(owner, {
    queue: size,
    overflow,
    acknowledge: 'automatic',
    isTracked: false,
    flowControl,
    handlers: {
      report(report) {
        if (!handler.isThere) return false
        seen.given.push(name(report))
        onReport?.(report)
        return true
      },
      hasReportHandler: () => handler.isThere,
    },
    ...options,
  })
  const reader: ReportReader = []
  const take = (count = 1, by = reader) =>
    Array.from({ length: count }, () => backlog.take(by)).map(report => report && name(report))
  const push = (feedID: string, ...times: number[]) => {
    for (const time of times) backlog.deliver(reportOf(feedID, time))
  }
  const deliver = (from: number, to: number) => push('', ...range(from, to))
  function addHandler(): void {
    handler.isThere = true
    backlog.handlerAdded()
  }
  return {
    ...{ owner, backlog, reader, take, push, deliver, seen, flowControl, socket },
    ...{ handler, addHandler },
  }
}

const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)
const names = (from: number, to: number) => range(from, to).map(String)
const tick = () => new Promise(resolve => setImmediate(resolve))

describe('the queue of a backlog', () => {
  test('gives reports in the order they came', () => {
    const { take, push } = open('block', 4)
    push('a', 1, 2)
    push('b', 1)
    expect(take(4)).toEqual(['a1', 'a2', 'b1', undefined])
    push('a', 3)
    expect(take(2)).toEqual(['a3', undefined])
  })

  test('serves several waiting readers in the order they asked', async () => {
    const { backlog, push } = open('block', 4)
    const order: string[] = []
    const waits = ['first', 'second', 'third'].map(label =>
      backlog.wait([]).then(report => order.push(`${label} ${report && name(report)}`)),
    )
    push('a', 1, 2, 3)
    await Promise.all(waits)
    expect(order).toEqual(['first a1', 'second a2', 'third a3'])
    expect(backlog.queued).toBe(0)
  })

  test('a reader has dealt with a report when it asks for the next one, and another reader does not speak for it', async () => {
    const { backlog, take, seen, push } = open('block', 4, { isTracked: true })
    const other: ReportReader = []
    push('a', 1, 2, 3)
    take()
    take(1, other)
    expect(seen.acknowledged).toEqual([])
    take()
    expect(seen.acknowledged).toEqual(['a1'])
    expect(take(1, other)).toEqual([undefined])
    expect(seen.acknowledged).toEqual(['a1', 'a2'])
    const waiting = backlog.wait(other)
    push('a', 4)
    await waiting
    expect(seen.acknowledged).toEqual(['a1', 'a2'])
    take(1, other)
    expect(seen.acknowledged).toEqual(['a1', 'a2', 'a4'])
    backlog.leave(other)
    take(1)
    backlog.leave(other)
    expect(seen).toMatchObject({ acknowledged: ['a1', 'a2', 'a4', 'a3'], unacknowledged: [] })
  })

  test('what a reader leaves, or a closed backlog holds, is not acknowledged', () => {
    const { backlog, reader, take, seen, push } = open('block', 4, { isTracked: true })
    push('a', 1, 2, 3)
    take(2)
    backlog.leave(reader)
    backlog.end()
    expect(seen).toMatchObject({ acknowledged: ['a1'], unacknowledged: ['a2', 'a3'] })
  })

  test('block pauses when full, takes what still comes, and resumes when half empty', () => {
    const { backlog, take, push, seen, socket } = open('block', 4)
    push('a', 1, 2, 3)
    expect(socket.isPaused).toBe(false)
    push('a', 4)
    expect(socket.isPaused).toBe(true)
    push('a', 5, 6, 7, 8, 9, 10)
    expect(backlog.queued).toBe(10)
    expect(take(7)).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'])
    expect(socket.isPaused).toBe(true)
    take()
    expect(socket).toEqual({ isPaused: false, changes: 2 })
    expect(take(2)).toEqual(['a9', 'a10'])
    expect(seen).toMatchObject({ backpressure: [4], dropped: [], gaps: [], overflowed: [] })
  })

  test('block leaves the connections paused while another holder pauses them', async () => {
    const { backlog, take, push, socket, flowControl } = open('block', 4)
    const holder = {}
    flowControl.pause(holder)
    await backlog.room()
    push('a', 1, 2, 3, 4)
    take(2)
    expect(socket.isPaused).toBe(true)
    flowControl.resume(holder)
    expect(socket).toEqual({ isPaused: false, changes: 2 })
  })

  test('block closes where a connection cannot be paused, at twice the size', async () => {
    const { backlog, reader, take, push, seen } = open('block', 3, { canPause: false })
    push('a', 1, 2, 3, 4, 5, 6)
    expect(seen.overflowed).toEqual([])
    push('a', 7, 8)
    expect(seen.overflowed).toMatchObject([{ code: 'OVERFLOW' }])
    expect(seen.dropped).toEqual(['a7'])
    expect(take(7)).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', undefined])
    await expect(backlog.wait(reader)).rejects.toMatchObject({ code: 'OVERFLOW' })
  })

  test('drop-oldest drops the oldest, counts each, and announces the range before the next of that feed', () => {
    const { take, push, seen, socket } = open('drop-oldest', 3)
    push('a', 1, 2, 3, 4, 5)
    expect(seen.dropped).toEqual(['a1', 'a2'])
    expect(seen.gaps).toEqual([])
    expect(take()).toEqual(['a3'])
    expect(seen.gaps).toEqual([{ feedID: 'a', from: 1, to: 2, cause: 'overflow' }])
    expect(take(3)).toEqual(['a4', 'a5', undefined])
    expect(seen.gaps).toHaveLength(1)
    expect(seen.backpressure).toEqual([3])
    expect(socket.changes).toBe(0)
  })

  test('ranges that do not touch are announced apart, and those that overlap as one', () => {
    const { backlog, take, seen } = open('drop-oldest', 1)
    backlog.deliver(reportOf('a', 14, 10))
    backlog.deliver(reportOf('a', 18, 13))
    backlog.deliver(reportOf('a', 30, 25))
    backlog.deliver(reportOf('a', 40, 31))
    backlog.deliver(reportOf('a', 41))
    expect(seen.gaps).toEqual([{ feedID: 'a', from: 10, to: 18, cause: 'overflow' }])
    take()
    expect(seen.gaps.slice(1)).toEqual([{ feedID: 'a', from: 25, to: 40, cause: 'overflow' }])
  })

  test('the gaps of all feeds are announced when an episode ends', () => {
    const { take, push, seen } = open('drop-oldest', 2)
    push('a', 1)
    push('b', 1)
    push('c', 1, 2)
    expect(seen.gaps).toEqual([])
    take()
    expect(seen.gaps.map(({ feedID }) => feedID)).toEqual(['a', 'b'])
  })

  test.each<OverflowPolicy>(['drop-oldest', 'latest-per-feed'])(
    'under %s a gap is announced within five seconds, though nothing is taken',
    policy => {
      const { push, take, seen } = open(policy, 1)
      push('a', 1, 2)
      jest.advanceTimersByTime(3000)
      push('b', 7, 8)
      expect(seen.gaps).toEqual([])
      jest.advanceTimersByTime(2000)
      const first = [
        { feedID: 'a', from: 1, to: 2, cause: 'overflow' },
        { feedID: 'b', from: 7, to: 7, cause: 'overflow' },
      ]
      expect(seen.gaps).toEqual(first)
      expect(jest.getTimerCount()).toBe(0)
      push('b', 9)
      jest.advanceTimersByTime(4999)
      expect(seen.gaps).toEqual(first)
      jest.advanceTimersByTime(1)
      expect(seen.gaps.slice(2)).toEqual([{ feedID: 'b', from: 8, to: 8, cause: 'overflow' }])
      expect(take(2)).toEqual(['b9', undefined])
      expect(seen.gaps).toHaveLength(3)
      expect(jest.getTimerCount()).toBe(0)
    },
  )

  test('latest-per-feed drops the oldest of the same feed, and of another only where there is none', () => {
    const { take, push, seen } = open('latest-per-feed', 3)
    push('a', 1)
    push('b', 1)
    push('a', 2)
    push('b', 2)
    expect(seen.dropped).toEqual(['b1'])
    push('a', 3)
    expect(seen.dropped).toEqual(['b1', 'a1'])
    push('c', 1)
    expect(seen.dropped).toEqual(['b1', 'a1', 'a2'])
    expect(take(4)).toEqual(['b2', 'a3', 'c1', undefined])
    expect(seen.gaps).toEqual([
      { feedID: 'b', from: 1, to: 1, cause: 'overflow' },
      { feedID: 'a', from: 1, to: 2, cause: 'overflow' },
    ])
  })

  test('close ends the stream with the report that does not fit; those queued can still be taken', async () => {
    const { backlog, reader, take, push, seen } = open('close', 2)
    push('a', 1, 2)
    expect(seen.overflowed).toEqual([])
    push('a', 3, 4)
    expect(seen.overflowed).toMatchObject([{ code: 'OVERFLOW' }])
    expect(seen.dropped).toEqual(['a3'])
    expect(seen.gaps).toEqual([{ feedID: 'a', from: 3, to: 3, cause: 'overflow' }])
    expect(take(3)).toEqual(['a1', 'a2', undefined])
    await expect(backlog.wait(reader)).rejects.toMatchObject({ code: 'OVERFLOW' })
  })

  test('slow is called once per episode, from full until drained to half', () => {
    const { take, push, seen } = open('drop-oldest', 4)
    push('a', 1, 2, 3, 4, 5)
    take()
    push('a', 6, 7)
    expect(seen.backpressure).toEqual([4])
    take(2)
    expect(seen.backpressure).toEqual([4])
    push('a', 8, 9)
    expect(seen.backpressure).toEqual([4, 4])
  })

  test('a closed queue gives nothing more; a failed one what it has, and then its failure', async () => {
    const closed = open('block', 4)
    closed.push('a', 1)
    closed.backlog.end()
    closed.push('a', 2)
    expect(closed.take()).toEqual([undefined])
    expect(await closed.backlog.wait(closed.reader)).toBeUndefined()
    const failed = open('block', 4)
    failed.push('a', 1)
    failed.backlog.end(new Error('lost'))
    expect(failed.take(2)).toEqual(['a1', undefined])
    await expect(failed.backlog.wait(failed.reader)).rejects.toThrow('lost')
  })

  test('readers that wait see the end', async () => {
    const closed = open('block', 4)
    const waiting = closed.backlog.wait(closed.reader)
    closed.backlog.end()
    expect(await waiting).toBeUndefined()
    const failed = open('block', 4)
    const inVain = failed.backlog.wait(failed.reader)
    failed.backlog.end(new Error('lost'))
    await expect(inVain).rejects.toThrow('lost')
  })

  test('room comes at once where there is some, else when it is made, and never so that a report overflows', async () => {
    const { backlog, take, push, seen } = open('drop-oldest', 2)
    await backlog.room()
    push('a', 1, 2)
    const served: number[] = []
    for (const caller of [1, 2, 3]) {
      void backlog.room().then(() => {
        served.push(caller)
        push('a', 10 + caller)
      })
    }
    await Promise.resolve()
    expect(served).toEqual([])
    take()
    await Promise.resolve()
    expect(served).toEqual([1])
    take(2)
    await Promise.resolve()
    expect(served).toEqual([1, 2, 3])
    expect(seen.dropped).toEqual([])
  })

  test('under block there is room again when the connections are', async () => {
    const { backlog, take, push } = open('block', 4)
    push('a', 1, 2, 3, 4)
    let hasRoom = false
    void backlog.room().then(() => {
      hasRoom = true
    })
    take()
    await Promise.resolve()
    expect(hasRoom).toBe(false)
    take()
    await Promise.resolve()
    expect(hasRoom).toBe(true)
  })

  test('a wait for room ends with the queue', async () => {
    const { backlog, push } = open('block', 1)
    push('a', 1)
    const waiting = Promise.all([backlog.room(), backlog.room()])
    backlog.end(new Error('lost'))
    await waiting
    await backlog.room()
  })

  test('handlers that read or close while they are called do no harm', () => {
    const { backlog, owner, push, take } = open('drop-oldest', 2)
    const given: (string | undefined)[] = []
    const readOne = () => void given.push(...take())
    owner.backpressure = readOne
    owner.gap = () => backlog.end()
    for (let time = 1; time < 9; time++) push('a', time)
    expect(given[0]).toBe('a1')
    readOne()
    expect(backlog.queued).toBe(0)
  })
})

describe('for any sequence of arrivals and readings', () => {
  const steps = fc.array(
    fc.oneof(
      { weight: 3, arbitrary: fc.record({ feed: fc.nat({ max: 4 }), count: fc.nat({ max: 9 }) }) },
      { weight: 2, arbitrary: fc.record({ take: fc.nat({ max: 12 }) }) },
      { weight: 1, arbitrary: fc.record({ wait: fc.nat({ max: 3 }) }) },
    ),
    { maxLength: 60 },
  )

  test.each<OverflowPolicy>(['block', 'drop-oldest', 'latest-per-feed', 'close'])(
    '%s gives or announces each report once, in order, and never queues more than its size',
    async policy => {
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 1, max: 40 }), steps, async (size, sequence) => {
          const { backlog, reader, seen, socket } = open(policy, size)
          const clock = new Map<string, number>()
          const pushed: string[] = []
          const model: Report[] = []
          const given: string[] = []
          const expected: string[] = []
          const waits: Promise<void>[] = []
          let waiting = 0
          let isOver = false
          function modelDrop(report: Report): void {
            const same = model.findIndex(each => each.feedID === report.feedID)
            model.splice(policy === 'latest-per-feed' && same >= 0 ? same : 0, 1)
            model.push(report)
          }
          function arrive(feedID: string): void {
            const from = (clock.get(feedID) ?? 0) + 1
            const to = from + (pushed.length % 3)
            clock.set(feedID, to)
            const report = reportOf(feedID, to, from)
            if (isOver) return
            pushed.push(name(report))
            backlog.deliver(report)
            if (waiting > 0) {
              waiting--
              expected.push(name(report))
            } else if (model.length < size || policy === 'block') model.push(report)
            else if (policy === 'close') isOver = true
            else modelDrop(report)
          }
          function read(): void {
            const report = backlog.take(reader)
            const first = model.shift()
            expect(report && name(report)).toBe(first && name(first))
            if (report !== undefined) given.push(name(report))
          }
          for (const step of sequence) {
            if ('count' in step) for (let n = step.count; n > 0; n--) arrive(`f${step.feed}-`)
            if ('take' in step) for (let n = step.take; n > 0; n--) read()
            if ('wait' in step && model.length === 0 && !isOver) {
              for (let n = step.wait; n > 0; n--) {
                waiting++
                waits.push(
                  backlog.wait(reader).then(report => {
                    if (report !== undefined) given.push(name(report))
                  }),
                )
              }
            }
            await Promise.resolve()
            await Promise.resolve()
            expect(backlog.queued).toBe(model.length)
            if (policy !== 'block') expect(backlog.queued).toBeLessThanOrEqual(size)
            else if (backlog.queued >= size) expect(socket.isPaused).toBe(true)
            else if (backlog.queued <= size >> 1) expect(socket.isPaused).toBe(false)
          }
          while (backlog.queued > 0) read()
          backlog.end()
          await Promise.all(waits)
          expect(given.length + seen.dropped.length).toBe(pushed.length)
          expect([...given, ...seen.dropped].sort()).toEqual([...pushed].sort())
          if (policy === 'block') expect(seen.dropped).toEqual([])
          expectOrdered(given, pushed)
          expectCovered(seen, pushed)
        }),
        { numRuns: inForm(30, 1000) },
      )
    },
  )

  /** Per feed ascending, since each feed's reports were pushed so. */
  function expectOrdered(given: string[], pushed: string[]): void {
    const places = new Map(pushed.map((each, index) => [each, index]))
    const last = new Map<string, number>()
    for (const each of given) {
      const [feed = ''] = each.split('-')
      const place = places.get(each) as number
      expect(place).toBeGreaterThan(last.get(feed) ?? -1)
      last.set(feed, place)
    }
  }

  /** The announced ranges are exactly those of the dropped reports, and none touches another. */
  function expectCovered(seen: { gaps: Gap[]; dropped: string[] }, pushed: string[]): void {
    const announced = new Set<string>()
    for (const { feedID, from, to, cause } of seen.gaps) {
      expect(cause).toBe('overflow')
      for (let time = from; time <= to; time++) {
        expect(announced.has(`${feedID}${time}`)).toBe(false)
        announced.add(`${feedID}${time}`)
      }
    }
    const dropped = new Set(seen.dropped)
    const ends = new Map<string, number>()
    const missing = new Set<string>()
    for (const each of pushed) {
      const [feed = '', time] = each.split('-')
      const to = Number(time)
      for (let at = (ends.get(feed) ?? 0) + 1; at <= to; at++)
        if (dropped.has(each)) missing.add(`${feed}-${at}`)
      ends.set(feed, to)
    }
    expect([...announced].sort()).toEqual([...missing].sort())
  }
})

describe('what has waited when a handler is added', () => {
  test('is given to it in slices where it is much, and what comes between them after it', async () => {
    const { backlog, seen, deliver, addHandler } = open('block', 10_000)
    deliver(1, 3000)
    addHandler()
    expect(seen.given).toEqual([])
    deliver(3001, 3002)
    await Promise.resolve()
    expect(seen.given).toHaveLength(1024)
    deliver(3003, 3004)
    for (let ticks = 0; ticks < 3; ticks++) await tick()
    expect(seen.given).toEqual(names(1, 3004))
    deliver(3005, 3005)
    expect(seen.given.at(-1)).toBe('3005')
    expect(backlog.queued).toBe(0)
  })

  test('is its own, when a loop or a reading begins meanwhile', async () => {
    for (const begin of ['loop', 'read'] as const) {
      const { backlog, reader, seen, deliver, addHandler } = open('block', 10)
      deliver(1, 5)
      addHandler()
      if (begin === 'loop') backlog.loopAdded()
      const next = begin === 'read' ? backlog.read() : backlog.wait(reader)
      expect(seen.given).toEqual(names(1, 5))
      deliver(6, 6)
      expect(await next).toMatchObject({ observationsTimestamp: 6 })
      expect(seen.given).toEqual(names(1, 6))
    }
  })

  test('is given to it before the end, when the stream fails before its tick', () => {
    const { backlog, seen, deliver, addHandler } = open('block', 10)
    deliver(1, 5)
    addHandler()
    backlog.end(new Error('lost'))
    expect(seen.given).toEqual(names(1, 5))
  })

  test('waits on when the handler is gone by then, and when it goes meanwhile', async () => {
    const { backlog, seen, handler, deliver, addHandler } = open('block', 10, {
      onReport({ observationsTimestamp }) {
        if (observationsTimestamp === 2) handler.isThere = false
      },
    })
    deliver(1, 5)
    addHandler()
    handler.isThere = false
    await tick()
    expect(seen.given).toEqual([])
    addHandler()
    await tick()
    expect(seen.given).toEqual(names(1, 2))
    deliver(6, 6)
    addHandler()
    await tick()
    expect(seen.given).toEqual(names(1, 6))
    expect(backlog.queued).toBe(0)
  })

  test('is given once, in order, to a handler that reads meanwhile', async () => {
    const read: (Report | undefined)[] = []
    const { backlog, seen, deliver, addHandler } = open('block', 10, {
      onReport({ observationsTimestamp }) {
        if (observationsTimestamp === 2)
          void Promise.resolve(backlog.read()).then(report => read.push(report))
      },
    })
    deliver(1, 5)
    addHandler()
    await tick()
    deliver(6, 7)
    await tick()
    expect(seen.given).toEqual(names(1, 7))
    expect(read).toMatchObject([{ observationsTimestamp: 6 }])
  })

  test('stays with the loop that it waits for', async () => {
    const { backlog, seen, take, deliver, addHandler } = open('block', 10)
    backlog.loopAdded()
    deliver(1, 2)
    addHandler()
    await tick()
    deliver(3, 3)
    expect(seen.given).toEqual(['3'])
    expect(take(3)).toEqual(names(1, 3))
  })
})

test('a handler that reads is given the report after the one it has', async () => {
  const read: (Report | undefined)[] = []
  const { backlog, deliver, addHandler } = open('block', 10, {
    onReport({ observationsTimestamp }) {
      if (observationsTimestamp === 1)
        void Promise.resolve(backlog.read()).then(report => read.push(report))
    },
  })
  addHandler()
  deliver(1, 3)
  await tick()
  expect(read).toMatchObject([{ observationsTimestamp: 2 }])
})

const feedID = `0x0003${'aa'.repeat(30)}`

/** A backlog with cursors. A report is held by as many promises of handlers as `holders` says. */
function openTracked(acknowledge: 'automatic' | 'manual', size: number, holders = 0) {
  const settle = new Map<Report, (() => void)[]>()
  const made = open('drop-oldest', size, {
    acknowledge,
    isTracked: true,
    onReport(report) {
      const held = Array.from({ length: holdersOf(report) }, () => made.backlog.promised(report))
      settle.set(
        report,
        held.flatMap(each => each ?? []),
      )
    },
  })
  const many = new Map<Report, number>()
  const holdersOf = (report: Report): number => many.get(report) ?? holders
  const cursors = new Cursors({
    store: { load: async () => ({}), save: async () => undefined },
    now: Date.now,
    failed: () => undefined,
    earliest: id => made.backlog.earliest(id),
  })
  made.owner.arrived = report => cursors.arrived(report)
  made.owner.acknowledged = report => cursors.acknowledged(report)
  return { ...made, cursors, settle, many, cursor: () => cursors.cursor(feedID) }
}

describe('the reports of a backlog that are not acknowledged', () => {
  test.each(['automatic', 'manual'] as const)(
    'hold a cursor (%s) below them, whatever is acknowledged when, and it comes to the newest when all are',
    async acknowledge => {
      const lengths = fc.array(
        fc.record({
          length: fc.integer({ min: 1, max: 4 }),
          holders: fc.integer({ min: 1, max: 3 }),
          isLate: fc.boolean(),
        }),
        { minLength: 1, maxLength: 40 },
      )
      await fc.assert(
        fc.asyncProperty(lengths, fc.infiniteStream(fc.nat()), async (all, random) => {
          const { backlog, cursors, addHandler, settle, many, cursor } = openTracked(acknowledge, 0)
          addHandler()
          let time = 100
          const reports = all.map(({ length, holders }) => {
            time += length
            const report = reportOf(feedID, time, time - length + 1)
            many.set(report, holders)
            return report
          })
          const order = [...reports.keys()].sort(
            (a, b) => a + (all[a]?.isLate ? 2.5 : 0) - b - (all[b]?.isLate ? 2.5 : 0),
          )
          const pending = new Map<Report, (() => void)[]>()
          const first = reports[order[0] as number] as Report
          function check(): void {
            for (const { observationsTimestamp } of pending.keys())
              expect(cursor()).toBeLessThan(observationsTimestamp)
          }
          function acknowledgeSome(): void {
            const [report, held] =
              [...pending][(random.next().value as number) % pending.size] ?? []
            if (report === undefined || held === undefined) return
            if (acknowledge === 'manual') report.acknowledge()
            else held.pop()?.()
            if (held.length === 0) pending.delete(report)
          }
          for (const index of order) {
            const report = reports[index] as Report
            backlog.deliver(report)
            pending.set(report, settle.get(report) ?? [])
            check()
            for (let count = (random.next().value as number) % 3; count > 0; count--) {
              acknowledgeSome()
              check()
            }
          }
          while (pending.size > 0) {
            acknowledgeSome()
            check()
          }
          expect(backlog.earliest(feedID)).toBeUndefined()
          const times = reports.map(report => report.observationsTimestamp)
          expect(cursor()).toBe(Math.max(first.observationsTimestamp - 1, ...times))
          await cursors.flush()
        }),
        { numRuns: inForm(40, 200) },
      )
    },
  )

  test('hold it although there are thousands, and all after the first are acknowledged', async () => {
    const { backlog, cursors, addHandler, cursor } = openTracked('manual', 0)
    addHandler()
    const reports = range(1, 6000).map(time => reportOf(feedID, time))
    for (const report of reports) backlog.deliver(report)
    for (const [index, report] of reports.entries()) if (index % 2 === 1) report.acknowledge()
    expect(cursor()).toBe(0)
    reports[0]?.acknowledge()
    expect(cursor()).toBe(2)
    await cursors.flush()
  })

  test('are without those that were dropped: these neither hold the cursor nor move it', async () => {
    const { backlog, cursors, push, take, cursor } = openTracked('automatic', 1)
    push(feedID, 100, 101)
    expect(backlog.earliest(feedID)).toBe(101)
    expect(cursor()).toBe(99)
    take(2)
    expect(cursor()).toBe(101)
    await cursors.flush()
  })

  test('pause the connections at the limit, and those that wait do not count', async () => {
    const { backlog, settle, handler, addHandler, deliver, seen, socket } = openTracked(
      'automatic',
      4,
      1,
    )
    addHandler()
    deliver(1, 3)
    handler.isThere = false
    deliver(4, 5)
    expect([socket.isPaused, backlog.queued]).toEqual([false, 2])
    handler.isThere = true
    deliver(6, 6)
    expect(socket.isPaused).toBe(true)
    expect(seen.backpressure).toEqual([4])
    let hasRoom = false
    void backlog.room().then(() => {
      hasRoom = true
    })
    const held = [...settle.values()].flat()
    held[0]?.()
    await Promise.resolve()
    expect([socket.isPaused, hasRoom]).toEqual([true, false])
    held[1]?.()
    await Promise.resolve()
    expect([socket.isPaused, hasRoom]).toEqual([false, true])
  })

  test.each(['automatic', 'manual'] as const)(
    'end the stream at twice the limit where a connection cannot be paused (%s)',
    acknowledge => {
      const { addHandler, deliver, seen } = open('block', 3, {
        ...{ acknowledge, isTracked: true, canPause: false },
        onReport: () => undefined,
      })
      addHandler()
      deliver(1, 6)
      const message = expect.stringMatching(
        /^the stream has 6 reports that were given out and not acknowledged, and a connection that cannot be paused$/,
      )
      expect(seen.overflowed).toMatchObject(
        acknowledge === 'manual' ? [{ code: 'OVERFLOW', message }] : [],
      )
    },
  )
})
