import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Sink } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import { createServices } from '../../core/scope.js'
import { type DedupOptions, dedup } from '../../index.js'
import type { Report } from '../../report/report.js'

const feedA = `0x0003${'aa'.repeat(30)}`
const feedB = `0x0003${'bb'.repeat(30)}`

/** The parts of a report that dedup reads: `blob` stands for its values, `signatures` for its signers. */
function report(
  time: number,
  feedID = feedA,
  {
    blob = '00',
    signatures = '11',
    origin = '001',
    source = 'live' as Report['source'],
    since = time,
  } = {},
): Report {
  const word = (value: number | string) => String(value).padStart(64, '0')
  const words = [0, 0, 0, 'e0', 0, 0, signatures, '20', blob, 0, 0].map(word)
  return {
    feedID,
    observationsTimestamp: time,
    validFromTimestamp: since,
    fullReport: `0x${words.join('')}`,
    origin,
    source,
  } as Report
}

/** A stream's stage, and its events. */
function stage(options?: DedupOptions, cursors: ReadonlyMap<string, number> = new Map()) {
  const delivered: Report[] = []
  const counts = { deduplicated: 0 }
  const conflicts: [Report, Report][] = []
  let connect: (origin: string) => void = () => undefined
  let unsubscribe: (feedIDs: readonly string[]) => void = () => undefined
  const scope = {
    kind: 'stream',
    defer: () => undefined,
    cursors,
    client: createServices(),
    connections: {
      watch(listener: (status: unknown) => void) {
        connect = origin => listener({ type: 'connected', origin })
      },
    },
    count: (as: 'deduplicated') => void counts[as]++,
    events: {
      on(_: 'status', listener: (status: unknown) => void) {
        unsubscribe = feedIDs => listener({ type: 'unsubscribed', feedIDs })
      },
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
    unsubscribe: (feedIDs: readonly string[]) => unsubscribe(feedIDs),
    times: () => delivered.map(each => each.observationsTimestamp),
  }
}

describe('dedup', () => {
  test('delivers 100, 102, 101, 103 from two origins, in any order, once each', () => {
    const times = [100, 102, 101, 103]
    const duplicates = [...times, ...times]
    fc.assert(
      fc.property(fc.shuffledSubarray(duplicates, { minLength: duplicates.length }), order => {
        const { sink, delivered, counts } = stage()
        for (const time of order) sink(report(time))
        expect(delivered.map(each => each.observationsTimestamp).sort()).toEqual([...times].sort())
        expect(counts.deduplicated).toBe(4)
      }),
    )
  })

  test('delivers a report after a newer one', () => {
    const { sink, counts, times } = stage()
    for (const time of [100, 102, 101, 103]) sink(report(time))
    expect(times()).toEqual([100, 102, 101, 103])
    expect(counts).toEqual({ deduplicated: 0 })
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

  test('takes other signatures on the same values for a duplicate, and other values for a conflict', () => {
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
    'emits a conflict with one of the last four reports, once duplicates can arrive, even after %i',
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

  test('caches two reports of a feed where no duplicates arrive', () => {
    const { sink, conflicts, connect } = stage()
    connect('001')
    connect('001')
    for (const time of [1, 2, 3, 4]) sink(report(time))
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

  test('remembers a bounded number of observations: behind the window, where each report began', () => {
    const { sink, times, counts } = stage({ window: 8 })
    // Each names one before it that has not been seen, so that nothing is known of what is between two.
    for (let time = 10; time <= 6000; time += 10) sink(report(time, feedA, { since: time - 4 }))
    expect(times()).toHaveLength(600)
    // Among the oldest, which have become one run, all counts as seen; among others and the newest only what was.
    for (const time of [15, 5000, 5005, 5980, 5985]) sink(report(time))
    expect(times().slice(600)).toEqual([5005, 5985])
    expect(counts).toEqual({ deduplicated: 3 })
  })

  test.each([600, 1200, 3000])(
    'recognises a replay of %i reports that begin where the one before ended',
    replayed => {
      const { sink, times, counts } = stage()
      const all = Array.from({ length: 4000 }, (_, index) => 1000 + 3 * index)
      for (const time of all) sink(report(time, feedA, { since: time - 2 }))
      for (const time of all.slice(-replayed)) sink(report(time, feedA, { since: time - 2 }))
      expect(times()).toEqual(all)
      expect(counts).toEqual({ deduplicated: replayed })
    },
  )

  test.each([300, 600])('loses no newer report to an origin that is %i reports behind', behind => {
    const { sink, times, counts } = stage()
    for (let time = 1; time <= 5000; time++) {
      sink(report(time))
      if (time > behind) sink(report(time - behind, feedA, { origin: '002' }))
      // A third origin that brings the newest again.
      if (time % 100 === 0)
        for (let newest = time - 99; newest <= time; newest++) sink(report(newest))
    }
    expect(times()).toHaveLength(5000)
    expect(counts).toEqual({ deduplicated: 10_000 - behind })
  })

  test('delivers late reports that were missing far behind the window, once', () => {
    const { sink, times, counts } = stage()
    const missing = [500, 501, 777]
    for (let time = 1; time <= 4000; time++) if (!missing.includes(time)) sink(report(time))
    for (const time of [777, 501, 500, 500, 501, 777]) sink(report(time))
    expect(times().slice(3997)).toEqual([777, 501, 500])
    expect(counts).toEqual({ deduplicated: 3 })
  })

  test('emits a conflict with a fetched duplicate that differs, and with a live duplicate of a fetched report', () => {
    const { sink, conflicts, delivered, counts } = stage()
    sink(report(100))
    const fetched = report(100, feedA, { blob: '01', source: 'backfill' })
    sink(fetched)
    expect(conflicts).toEqual([[delivered[0], fetched]])
    sink(report(99, feedA, { source: 'backfill' }))
    const live = report(99, feedA, { blob: '01' })
    sink(live)
    expect(conflicts.slice(1)).toEqual([[delivered[1], live]])
    expect(delivered).toHaveLength(2)
    expect(counts).toEqual({ deduplicated: 2 })
  })

  test('remembers live reports whatever is fetched meanwhile, and many fetched ones', () => {
    const { sink, times, counts } = stage({ window: 8 })
    const fetched = { source: 'backfill' as const }
    for (let time = 1001; time <= 1008; time++) sink(report(time))
    for (let time = 901; time <= 964; time++) sink(report(time, feedA, fetched))
    for (let time = 901; time <= 964; time++) sink(report(time))
    for (let time = 1001; time <= 1008; time++) sink(report(time))
    expect(times()).toHaveLength(72)
    expect(counts).toEqual({ deduplicated: 72 })
  })

  test('agrees with a set, for any order and number of duplicates within its window', () => {
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
    const client = createServices()
    const nothing = () => undefined
    plugin.setup?.({ ...client, place: nothing } as never)
    const sinks = counts.map((_, index) => {
      const scope = {
        kind: 'stream',
        ...{ count: nothing, connections: { watch: nothing }, defer: nothing },
        ...{ cursors: { get: nothing }, events: { on: nothing, emit: nothing } },
        client,
      } as never
      return plugin.report?.(() => {
        counts[index] = (counts[index] ?? 0) + 1
      }, scope)
    })
    for (const sink of sinks) sink?.(report(100))
    expect(counts).toEqual([1, 1])
  })

  test('forgets a feed that is unsubscribed', () => {
    const { sink, unsubscribe, times } = stage()
    for (const feedID of [feedA, feedB]) sink(report(100, feedID))
    unsubscribe([feedA])
    for (const feedID of [feedA, feedB]) sink(report(100, feedID))
    expect(times()).toEqual([100, 100, 100])
  })

  test('takes what the cursor has passed last for a duplicate', () => {
    const { sink, times, counts } = stage({}, new Map([[feedA, 100]]))
    for (const time of [100, 101]) sink(report(time))
    expect(times()).toEqual([101])
    expect(counts).toEqual({ deduplicated: 1 })
  })

  test.each([[0], [7], [1.5], [Number.NaN]])('rejects a window of %p by name', window => {
    expect(() => dedup({ window })).toThrow(/window/)
  })
})
