import { describe, expect, test } from '@jest/globals'
import { createFlowControl } from '../../../../client/stream/connection/flow-control.js'
import { createConsumption } from '../../../../client/stream/queue/consumption.js'
import { createDecoderTable } from '../../../../report/decoder-table.js'
import { Report } from '../../../../report/report.js'

const table = createDecoderTable([], {})
const reportAt = (time: number) => new Report('a', '0x', time, time, 'here', 'live', table)
const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)
const tick = () => new Promise(resolve => setImmediate(resolve))

/** The upper end of a stream whose one handler can be put in and taken out. */
function open(size: number, onReport: (time: number) => void = () => undefined) {
  const given: number[] = []
  const handler = { isThere: false }
  const consumption = createConsumption({
    size,
    overflow: 'block',
    flowControl: createFlowControl(),
    outstanding: undefined,
    emit(report) {
      if (!handler.isThere) return false
      given.push(report.observationsTimestamp)
      onReport(report.observationsTimestamp)
      return true
    },
    hasHandler: () => handler.isThere,
    slow: () => undefined,
    dropped: () => undefined,
    gap: () => undefined,
    overflowed: () => undefined,
    start: () => undefined,
    close: async () => undefined,
    reason: () => undefined,
  })
  const deliver = (from: number, to: number) => {
    for (const time of range(from, to)) consumption.deliver(reportAt(time))
  }
  function addHandler(): void {
    handler.isThere = true
    consumption.handlerAdded()
  }
  return { consumption, given, handler, deliver, addHandler }
}

describe('what has waited when a handler is added', () => {
  test('is given to it in slices where it is much, and what comes between them after it', async () => {
    const { consumption, given, deliver, addHandler } = open(10_000)
    deliver(1, 3000)
    addHandler()
    expect(given).toEqual([])
    deliver(3001, 3002)
    await Promise.resolve()
    expect(given).toHaveLength(1024)
    deliver(3003, 3004)
    for (let ticks = 0; ticks < 3; ticks++) await tick()
    expect(given).toEqual(range(1, 3004))
    deliver(3005, 3005)
    expect(given.at(-1)).toBe(3005)
    expect(consumption.queued).toBe(0)
  })

  test('is its own, when a loop or a reading begins meanwhile', async () => {
    for (const begin of ['loop', 'read'] as const) {
      const { consumption, given, deliver, addHandler } = open(10)
      deliver(1, 5)
      addHandler()
      const next =
        begin === 'read'
          ? consumption.read()
          : consumption
              .iterate()
              .next()
              .then(it => it.value)
      expect(given).toEqual(range(1, 5))
      deliver(6, 6)
      expect(await next).toMatchObject({ observationsTimestamp: 6 })
      expect(given).toEqual(range(1, 6))
    }
  })

  test('is given to it before the end, when the stream fails before its tick', () => {
    const { consumption, given, deliver, addHandler } = open(10)
    deliver(1, 5)
    addHandler()
    consumption.end(new Error('lost'))
    expect(given).toEqual(range(1, 5))
  })

  test('waits on when the handler is gone by then, and when it goes meanwhile', async () => {
    const { consumption, given, handler, deliver, addHandler } = open(10, time => {
      if (time === 2) handler.isThere = false
    })
    deliver(1, 5)
    addHandler()
    handler.isThere = false
    await tick()
    expect(given).toEqual([])
    addHandler()
    await tick()
    expect(given).toEqual([1, 2])
    deliver(6, 6)
    addHandler()
    await tick()
    expect(given).toEqual(range(1, 6))
    expect(consumption.queued).toBe(0)
  })

  test('is given once, in order, to a handler that reads meanwhile', async () => {
    const read: number[] = []
    const { consumption, given, deliver, addHandler } = open(10, time => {
      if (time === 2)
        void consumption.read().then(report => read.push(report.observationsTimestamp))
    })
    deliver(1, 5)
    addHandler()
    await tick()
    deliver(6, 7)
    await tick()
    expect(given).toEqual(range(1, 7))
    expect(read).toEqual([6])
  })

  test('stays with the loop that it waits for', async () => {
    const { consumption, given, deliver, addHandler } = open(10)
    const iterator = consumption.iterate()
    deliver(1, 2)
    addHandler()
    await tick()
    deliver(3, 3)
    expect(given).toEqual([3])
    const taken = [await iterator.next(), await iterator.next(), await iterator.next()]
    expect(taken.map(({ value }) => value.observationsTimestamp)).toEqual([1, 2, 3])
  })
})

test('a handler that reads is given the report after the one it has', async () => {
  const read: number[] = []
  const { consumption, handler, deliver } = open(10, time => {
    if (time === 1) void consumption.read().then(report => read.push(report.observationsTimestamp))
  })
  handler.isThere = true
  deliver(1, 3)
  await tick()
  expect(read).toEqual([2])
})
