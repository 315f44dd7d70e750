import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import fc from 'fast-check'
import { createFlowControl } from '../../../../client/stream/connection/flow-control.js'
import { createReportQueue, type OverflowPolicy } from '../../../../client/stream/queue/queue.js'
import type { DataStreamsError } from '../../../../core/errors.js'
import { createDecoderTable } from '../../../../report/decoder-table.js'
import type { Gap } from '../../../../report/gap.js'
import { Report } from '../../../../report/report.js'
import { inForm } from '../../../support/long.js'

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

/** A queue and everything it reports. */
function queueOf(overflow: OverflowPolicy, size: number, canPause = true) {
  const flowControl = createFlowControl()
  const socket = { isPaused: false, changes: 0 }
  function setPaused(isPaused: boolean): void {
    socket.isPaused = isPaused
    socket.changes++
  }
  flowControl.add({ canPause, pause: () => setPaused(true), resume: () => setPaused(false) })
  const seen = {
    slow: [] as number[],
    dropped: [] as string[],
    gaps: [] as Gap[],
    consumed: [] as string[],
    overflowed: [] as DataStreamsError[],
  }
  const queue = createReportQueue({
    size,
    overflow,
    flowControl,
    slow: queued => void seen.slow.push(queued),
    dropped: report => void seen.dropped.push(name(report)),
    gap: gap => void seen.gaps.push(gap),
    consumed: report => void seen.consumed.push(name(report)),
    overflowed(error) {
      seen.overflowed.push(error)
      queue.end(error)
    },
  })
  const reader = queue.createReader()
  const take = (count = 1) =>
    Array.from({ length: count }, () => reader.take()).map(report => report && name(report))
  const push = (feedID: string, ...times: number[]) => {
    for (const time of times) queue.push(reportOf(feedID, time))
  }
  return { queue, reader, take, push, seen, flowControl, socket }
}

describe('a queue of reports', () => {
  test('gives reports in the order they came', () => {
    const { take, push } = queueOf('block', 4)
    push('a', 1, 2)
    push('b', 1)
    expect(take(4)).toEqual(['a1', 'a2', 'b1', undefined])
    push('a', 3)
    expect(take(2)).toEqual(['a3', undefined])
  })

  test('serves several waiting readers in the order they asked', async () => {
    const { queue, push } = queueOf('block', 4)
    const order: string[] = []
    const waits = ['first', 'second', 'third'].map(label =>
      queue
        .createReader()
        .wait()
        .then(report => order.push(`${label} ${report && name(report)}`)),
    )
    push('a', 1, 2, 3)
    await Promise.all(waits)
    expect(order).toEqual(['first a1', 'second a2', 'third a3'])
    expect(queue.length).toBe(0)
  })

  test('a reader has consumed a report when it asks for the next one, and another reader does not speak for it', async () => {
    const { queue, reader, seen, push } = queueOf('block', 4)
    const other = queue.createReader()
    push('a', 1, 2, 3)
    reader.take()
    other.take()
    expect(seen.consumed).toEqual([])
    reader.take()
    expect(seen.consumed).toEqual(['a1'])
    expect(other.take()).toBeUndefined()
    expect(seen.consumed).toEqual(['a1', 'a2'])
    const waiting = other.wait()
    push('a', 4)
    await waiting
    expect(seen.consumed).toEqual(['a1', 'a2'])
    other.take()
    expect(seen.consumed).toEqual(['a1', 'a2', 'a4'])
  })

  test('block pauses when full, takes what still comes, and resumes when half empty', () => {
    const { queue, take, push, seen, socket } = queueOf('block', 4)
    push('a', 1, 2, 3)
    expect(socket.isPaused).toBe(false)
    push('a', 4)
    expect(socket.isPaused).toBe(true)
    push('a', 5, 6, 7, 8, 9, 10)
    expect(queue.length).toBe(10)
    expect(take(7)).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'])
    expect(socket.isPaused).toBe(true)
    take()
    expect(socket).toEqual({ isPaused: false, changes: 2 })
    expect(take(2)).toEqual(['a9', 'a10'])
    expect(seen).toMatchObject({ slow: [4], dropped: [], gaps: [], overflowed: [] })
  })

  test('block leaves the connections paused while another holder pauses them', async () => {
    const { queue, take, push, socket, flowControl } = queueOf('block', 4)
    const holder = {}
    flowControl.pause(holder)
    await queue.room()
    push('a', 1, 2, 3, 4)
    take(2)
    expect(socket.isPaused).toBe(true)
    flowControl.resume(holder)
    expect(socket).toEqual({ isPaused: false, changes: 2 })
  })

  test('block closes where a connection cannot be paused, at twice the size', async () => {
    const { reader, take, push, seen } = queueOf('block', 3, false)
    push('a', 1, 2, 3, 4, 5, 6)
    expect(seen.overflowed).toEqual([])
    push('a', 7, 8)
    expect(seen.overflowed).toMatchObject([{ code: 'OVERFLOW' }])
    expect(seen.dropped).toEqual(['a7'])
    expect(take(7)).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', undefined])
    await expect(reader.wait()).rejects.toMatchObject({ code: 'OVERFLOW' })
  })

  test('drop-oldest drops the oldest, counts each, and announces the range before the next of that feed', () => {
    const { take, push, seen, socket } = queueOf('drop-oldest', 3)
    push('a', 1, 2, 3, 4, 5)
    expect(seen.dropped).toEqual(['a1', 'a2'])
    expect(seen.gaps).toEqual([])
    expect(take()).toEqual(['a3'])
    expect(seen.gaps).toEqual([{ feedID: 'a', from: 1, to: 2, cause: 'overflow' }])
    expect(take(3)).toEqual(['a4', 'a5', undefined])
    expect(seen.gaps).toHaveLength(1)
    expect(seen.slow).toEqual([3])
    expect(socket.changes).toBe(0)
  })

  test('ranges that do not touch are announced apart, and those that overlap as one', () => {
    const { queue, take, seen } = queueOf('drop-oldest', 1)
    queue.push(reportOf('a', 14, 10))
    queue.push(reportOf('a', 18, 13))
    queue.push(reportOf('a', 30, 25))
    queue.push(reportOf('a', 40, 31))
    queue.push(reportOf('a', 41))
    expect(seen.gaps).toEqual([{ feedID: 'a', from: 10, to: 18, cause: 'overflow' }])
    take()
    expect(seen.gaps.slice(1)).toEqual([{ feedID: 'a', from: 25, to: 40, cause: 'overflow' }])
  })

  test('the gaps of all feeds are announced when an episode ends', () => {
    const { take, push, seen } = queueOf('drop-oldest', 2)
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
      const { push, take, seen } = queueOf(policy, 1)
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
    const { take, push, seen } = queueOf('latest-per-feed', 3)
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
    const { reader, take, push, seen } = queueOf('close', 2)
    push('a', 1, 2)
    expect(seen.overflowed).toEqual([])
    push('a', 3, 4)
    expect(seen.overflowed).toMatchObject([{ code: 'OVERFLOW' }])
    expect(seen.dropped).toEqual(['a3'])
    expect(seen.gaps).toEqual([{ feedID: 'a', from: 3, to: 3, cause: 'overflow' }])
    expect(take(3)).toEqual(['a1', 'a2', undefined])
    await expect(reader.wait()).rejects.toMatchObject({ code: 'OVERFLOW' })
  })

  test('slow is called once per episode, from full until drained to half', () => {
    const { take, push, seen } = queueOf('drop-oldest', 4)
    push('a', 1, 2, 3, 4, 5)
    take()
    push('a', 6, 7)
    expect(seen.slow).toEqual([4])
    take(2)
    expect(seen.slow).toEqual([4])
    push('a', 8, 9)
    expect(seen.slow).toEqual([4, 4])
  })

  test('a closed queue gives nothing more; a failed one what it has, and then its failure', async () => {
    const closed = queueOf('block', 4)
    closed.push('a', 1)
    closed.queue.end()
    closed.push('a', 2)
    expect(closed.take()).toEqual([undefined])
    expect(await closed.reader.wait()).toBeUndefined()
    const failed = queueOf('block', 4)
    failed.push('a', 1)
    failed.queue.end(new Error('lost'))
    expect(failed.take(2)).toEqual(['a1', undefined])
    await expect(failed.reader.wait()).rejects.toThrow('lost')
  })

  test('readers that wait see the end', async () => {
    const closed = queueOf('block', 4)
    const waiting = closed.reader.wait()
    closed.queue.end()
    expect(await waiting).toBeUndefined()
    const failed = queueOf('block', 4)
    const inVain = failed.reader.wait()
    failed.queue.end(new Error('lost'))
    await expect(inVain).rejects.toThrow('lost')
  })

  test('room comes at once where there is some, else when it is made, and never so that a report overflows', async () => {
    const { queue, take, push, seen } = queueOf('drop-oldest', 2)
    await queue.room()
    push('a', 1, 2)
    const served: number[] = []
    for (const caller of [1, 2, 3]) {
      void queue.room().then(() => {
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
    const { queue, take, push } = queueOf('block', 4)
    push('a', 1, 2, 3, 4)
    let hasRoom = false
    void queue.room().then(() => {
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
    const { queue, push } = queueOf('block', 1)
    push('a', 1)
    const waiting = Promise.all([queue.room(), queue.room()])
    queue.end(new Error('lost'))
    await waiting
    await queue.room()
  })

  test('handlers that read or close while they are called do no harm', () => {
    const flowControl = createFlowControl()
    const given: string[] = []
    const queue = createReportQueue({
      size: 2,
      overflow: 'drop-oldest',
      flowControl,
      slow: () => void readOne(),
      dropped: () => undefined,
      gap: () => queue.end(),
      consumed: () => undefined,
      overflowed: () => undefined,
    })
    const reader = queue.createReader()
    function readOne(): void {
      const report = reader.take()
      if (report !== undefined) given.push(name(report))
    }
    for (let time = 1; time < 9; time++) queue.push(reportOf('a', time))
    expect(given[0]).toBe('a1')
    readOne()
    expect(queue.length).toBe(0)
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
          const { queue, reader, seen, socket } = queueOf(policy, size)
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
            queue.push(report)
            if (waiting > 0) {
              waiting--
              expected.push(name(report))
            } else if (model.length < size || policy === 'block') model.push(report)
            else if (policy === 'close') isOver = true
            else modelDrop(report)
          }
          function read(): void {
            const report = reader.take()
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
                  reader.wait().then(report => {
                    if (report !== undefined) given.push(name(report))
                  }),
                )
              }
            }
            await Promise.resolve()
            await Promise.resolve()
            expect(queue.length).toBe(model.length)
            if (policy !== 'block') expect(queue.length).toBeLessThanOrEqual(size)
            else if (queue.length >= size) expect(socket.isPaused).toBe(true)
            else if (queue.length <= size >> 1) expect(socket.isPaused).toBe(false)
          }
          while (queue.length > 0) read()
          queue.end()
          await Promise.all(waits)
          expect(given.length + seen.dropped.length).toBe(pushed.length)
          expect([...given, ...seen.dropped].sort()).toEqual([...pushed].sort())
          if (policy === 'block') expect(seen.dropped).toEqual([])
          expectOrdered(given, pushed)
          expectCovered(seen, pushed)
        }),
        { numRuns: inForm(100, 1000) },
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
