import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createFlowControl } from '../../../../client/stream/connection/flow-control.js'
import { createCursors } from '../../../../client/stream/cursors.js'
import { createOutstanding } from '../../../../client/stream/queue/outstanding.js'
import { createDecoderTable } from '../../../../report/decoder-table.js'
import { Report } from '../../../../report/report.js'

const table = createDecoderTable([], {})
const feedID = `0x0003${'aa'.repeat(30)}`
const reportOf = (from: number, to: number): Report =>
  new Report(feedID, '0x', from, to, 'here', 'live', table)

function open(acknowledge: 'automatic' | 'manual', limit = 0, queued: () => number = () => 0) {
  const flowControl = createFlowControl()
  const slow: number[] = []
  const cursors = createCursors({
    store: { load: async () => ({}), save: async () => undefined },
    now: Date.now,
    failed: () => undefined,
    earliest: feedID => outstanding.earliest(feedID),
  })
  const outstanding = createOutstanding({
    acknowledge,
    limit,
    flowControl,
    queued,
    arrived: cursors.arrived,
    taken: cursors.taken,
    slow: count => void slow.push(count),
    overflowed: () => undefined,
  })
  function deliver(report: Report, holders: number): void {
    outstanding.begin(report)
    for (let count = 0; count < holders; count++) outstanding.retain(report)
    outstanding.delivered(report)
  }
  return {
    cursors,
    outstanding,
    flowControl,
    slow,
    deliver,
    cursor: () => cursors.cursor(feedID),
  }
}

test.each(['automatic', 'manual'] as const)(
  'whatever is taken when, a cursor (%s) stays below all that is not, and comes to the newest when all is',
  async acknowledge => {
    const lengths = fc.array(
      fc.record({
        length: fc.integer({ min: 1, max: 4 }),
        holders: fc.integer({ min: 1, max: 3 }),
        // Some come late, and some are dropped.
        isLate: fc.boolean(),
        isDropped: fc.boolean(),
      }),
      { minLength: 1, maxLength: 40 },
    )
    await fc.assert(
      fc.asyncProperty(lengths, fc.infiniteStream(fc.nat()), async (all, random) => {
        const { cursors, outstanding, deliver, cursor } = open(acknowledge)
        let time = 100
        const reports = all.map(({ length }) => {
          time += length
          return reportOf(time - length + 1, time)
        })
        const order = [...reports.keys()].sort(
          (a, b) => a + (all[a]?.isLate ? 2.5 : 0) - b - (all[b]?.isLate ? 2.5 : 0),
        )
        const untaken = new Map<Report, number>()
        const first = reports[order[0] as number] as Report
        function check(): void {
          for (const { observationsTimestamp } of untaken.keys())
            expect(cursor()).toBeLessThan(observationsTimestamp)
        }
        function takeSome(): void {
          const pending = [...untaken]
          const [report, holders] = pending[(random.next().value as number) % pending.length] ?? []
          if (report === undefined || holders === undefined) return
          if (all[reports.indexOf(report)]?.isDropped) {
            outstanding.drop(report)
            untaken.delete(report)
            return
          }
          if (acknowledge === 'manual') report.acknowledge()
          else outstanding.release(report)
          if (holders === 1 || acknowledge === 'manual') untaken.delete(report)
          else untaken.set(report, holders - 1)
        }
        for (const index of order) {
          const { holders } = all[index] as (typeof all)[number]
          const report = reports[index] as Report
          deliver(report, holders)
          untaken.set(report, holders)
          check()
          for (let count = (random.next().value as number) % 3; count > 0; count--) {
            takeSome()
            check()
          }
        }
        while (untaken.size > 0) {
          takeSome()
          check()
        }
        expect(outstanding.earliest(feedID)).toBeUndefined()
        // A dropped report neither holds the cursor nor moves it.
        const taken = reports.filter((_report, index) => all[index]?.isDropped === false)
        const times = taken.map(report => report.observationsTimestamp)
        expect(cursor()).toBe(Math.max(first.observationsTimestamp - 1, ...times))
        await cursors.flush()
      }),
      { numRuns: 200 },
    )
  },
)

test('one of thousands that is not taken holds the cursor, whatever was taken after it', async () => {
  const { cursors, deliver, cursor } = open('manual')
  const reports = Array.from({ length: 6000 }, (_, index) => reportOf(index + 1, index + 1))
  for (const report of reports) deliver(report, 0)
  for (const [index, report] of reports.entries()) if (index % 2 === 1) report.acknowledge()
  expect(cursor()).toBe(0)
  reports[0]?.acknowledge()
  expect(cursor()).toBe(2)
  await cursors.flush()
})

test('what waits in the queue does not count as given out', () => {
  let queued = 10
  const { outstanding, flowControl, slow } = open('automatic', 4, () => queued)
  const reports = Array.from({ length: 15 }, (_, index) => reportOf(index + 1, index + 1))
  for (const report of reports.slice(0, 13)) outstanding.retain(report)
  expect(flowControl.isPaused).toBe(false)
  outstanding.retain(reports[13] as Report)
  expect(flowControl.isPaused).toBe(true)
  expect(slow).toEqual([4])
  queued = 8
  let hasRoom = false
  void outstanding.room().then(() => {
    hasRoom = true
  })
  for (const report of reports.slice(0, 3)) outstanding.release(report)
  expect(flowControl.isPaused).toBe(true)
  outstanding.release(reports[3] as Report)
  expect(flowControl.isPaused).toBe(false)
  return Promise.resolve().then(() => expect(hasRoom).toBe(true))
})
