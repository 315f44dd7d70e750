import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Sink } from '../../client/plugin.js'
import type { StreamScope } from '../../client/scope.js'
import { type DedupOptions, dedup } from '../../index.js'
import type { Report } from '../../report/report.js'

const feedA = `0x0003${'aa'.repeat(30)}`
const feedB = `0x0003${'bb'.repeat(30)}`

/** The parts of a report that dedup reads: `blob` stands for its values, `signatures` for its signers. */
function report(
  time: number,
  feedID = feedA,
  { blob = '00', signatures = '11', origin = '001', source = 'live' as Report['source'] } = {},
): Report {
  const word = (value: number | string) => String(value).padStart(64, '0')
  const words = [0, 0, 0, 'e0', 0, 0, signatures, '20', blob, 0, 0].map(word)
  return {
    feedID,
    observationsTimestamp: time,
    validFromTimestamp: time,
    fullReport: `0x${words.join('')}`,
    origin,
    source,
  } as Report
}

/** A stream's stage, and its events. */
function stage(options?: DedupOptions) {
  const delivered: Report[] = []
  const counts = { deduplicated: 0, late: 0 }
  const conflicts: [Report, Report][] = []
  let connect: (origin: string) => void = () => undefined
  const scope = {
    kind: 'stream',
    defer: () => undefined,
    cursors: { get: () => undefined },
    connections: {
      watch(listener: (status: unknown) => void) {
        connect = origin => listener({ type: 'connected', origin })
      },
    },
    count: (as: 'deduplicated' | 'late') => void counts[as]++,
    events: {
      on: () => () => undefined,
      emit(_: 'conflict', { first, other }: { first: Report; other: Report }) {
        conflicts.push([first, other])
      },
    },
  } as unknown as StreamScope
  const plugin = dedup(options)
  const sink = plugin.report?.(each => void delivered.push(each), scope) as Sink
  return {
    sink,
    delivered,
    counts,
    conflicts,
    connect: (origin: string) => connect(origin),
    times: () => delivered.map(each => each.observationsTimestamp),
  }
}

describe('dedup', () => {
  test('delivers 100, 102, 101, 103 from two origins, in any order, once each', () => {
    const times = [100, 102, 101, 103]
    const copies = [...times, ...times]
    fc.assert(
      fc.property(fc.shuffledSubarray(copies, { minLength: copies.length }), order => {
        const { sink, delivered, counts } = stage()
        for (const time of order) sink(report(time))
        expect(delivered.map(each => each.observationsTimestamp).sort()).toEqual([...times].sort())
        expect(counts.deduplicated).toBe(4)
      }),
    )
  })

  test('counts a report after a newer one as late, and delivers it', () => {
    const { sink, counts, times } = stage()
    for (const time of [100, 102, 101, 103]) sink(report(time))
    expect(times()).toEqual([100, 102, 101, 103])
    expect(counts).toEqual({ deduplicated: 0, late: 1 })
  })

  test('is not suppressed by a time far in the future', () => {
    const { sink, times } = stage()
    for (const time of [100, 4_102_444_800, 101, 102, 101, 4_102_444_800]) sink(report(time))
    expect(times()).toEqual([100, 4_102_444_800, 101, 102])
  })

  test('keeps feeds apart', () => {
    const { sink, delivered } = stage()
    for (const feedID of [feedA, feedB, feedA, feedB]) sink(report(100, feedID))
    expect(delivered.map(each => each.feedID)).toEqual([feedA, feedB])
  })

  test('takes other signatures on the same values for a copy, and other values for a conflict', () => {
    const { sink, delivered, conflicts, counts } = stage()
    sink(report(100, feedA, { signatures: '11' }))
    sink(report(100, feedA, { signatures: '22' }))
    expect(conflicts).toEqual([])
    const other = report(100, feedA, { blob: '01' })
    sink(other)
    expect(conflicts).toEqual([[delivered[0], other]])
    expect(delivered).toHaveLength(1)
    expect(counts.deduplicated).toBe(2)
  })

  test.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'emits a conflict with one of the last four reports, once copies can arrive, even after %i',
    before => {
      for (const begin of [
        ({ sink }: ReturnType<typeof stage>) => sink(report(before)),
        ({ connect }: ReturnType<typeof stage>) => ['001', '001', '002'].forEach(connect),
      ]) {
        const all = stage()
        const { sink, conflicts, delivered } = all
        for (let time = 1; time <= before; time++) sink(report(time))
        begin(all)
        for (let time = before + 1; time <= before + 3; time++) sink(report(time))
        const other = report(before, feedA, { blob: '01' })
        sink(other)
        expect(conflicts).toEqual([[delivered[before - 1], other]])
      }
    },
  )

  test('caches one report of a feed where no copies arrive', () => {
    const { sink, conflicts, connect } = stage()
    connect('001')
    connect('001')
    for (const time of [1, 2, 3]) sink(report(time))
    sink(report(2, feedA, { blob: '01' }))
    expect(conflicts).toEqual([])
  })

  test('takes the same digits in another case for the same values', () => {
    const { sink, conflicts, counts } = stage()
    sink(report(100, feedA, { blob: 'ab' }))
    sink(report(100, feedA, { blob: 'AB' }))
    expect(conflicts).toEqual([])
    expect(counts.deduplicated).toBe(1)
  })

  test('remembers a bounded number of observations, whatever arrives', () => {
    const { sink, times } = stage({ window: 8 })
    for (let time = 1; time <= 8; time++) sink(report(time))
    for (let time = 1; time <= 8; time++) sink(report(time))
    expect(times()).toHaveLength(8)
    sink(report(9))
    sink(report(1))
    expect(times()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 1])
  })

  test('remembers live reports whatever is fetched meanwhile, and many fetched ones', () => {
    const { sink, times, counts } = stage({ window: 8 })
    const fetched = { source: 'backfill' as const }
    for (let time = 1001; time <= 1008; time++) sink(report(time))
    for (let time = 901; time <= 964; time++) sink(report(time, feedA, fetched))
    for (let time = 901; time <= 964; time++) sink(report(time))
    for (let time = 1001; time <= 1008; time++) sink(report(time))
    expect(times()).toHaveLength(72)
    expect(counts).toEqual({ deduplicated: 72, late: 0 })
  })

  test('agrees with a set, for any order and number of copies within its window', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 60 }), fc.boolean()), { maxLength: 400 }),
        arrivals => {
          const { sink, delivered, counts } = stage({ window: 64 })
          for (const [time, isA] of arrivals) sink(report(time, isA ? feedA : feedB))
          const distinct = new Set(arrivals.map(([time, isA]) => `${isA}${time}`))
          expect(delivered).toHaveLength(distinct.size)
          expect(counts.deduplicated).toBe(arrivals.length - distinct.size)
        },
      ),
    )
  })

  test('leaves requests alone, and two streams apart', () => {
    const plugin = dedup()
    const next: Sink = () => undefined
    expect(plugin.report?.(next, { kind: 'request' } as never)).toBe(next)
    const counts = [0, 0]
    const nothing = () => undefined
    const scope = {
      kind: 'stream',
      ...{ count: nothing, connections: { watch: nothing }, defer: nothing },
    } as never
    const sinks = counts.map((_, index) =>
      plugin.report?.(() => {
        counts[index] = (counts[index] ?? 0) + 1
      }, scope),
    )
    for (const sink of sinks) sink?.(report(100))
    expect(counts).toEqual([1, 1])
  })

  test.each([[0], [7], [1.5], [Number.NaN]])('rejects a window of %p by name', window => {
    expect(() => dedup({ window })).toThrow(/window/)
  })
})
