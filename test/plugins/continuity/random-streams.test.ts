import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createCursors } from '../../../client/stream/cursors.js'
import type { Report } from '../../../report/report.js'
import { feedA, report, stream, wait } from '../../support/plugins/continuity.js'

/** What happens to the nth report: how long until it comes by each of two origins, if at all, and whether it is stored. */
const fate = fc.record({
  delays: fc.array(fc.option(fc.integer({ min: 0, max: 3000 }), { freq: 2 }), {
    minLength: 1,
    maxLength: 2,
  }),
  isStored: fc.boolean(),
  length: fc.integer({ min: 1, max: 5 }),
})
const scenario = fc.record({
  fates: fc.array(
    fc.oneof(
      { weight: 3, arbitrary: fate },
      { weight: 4, arbitrary: fc.constant({ delays: [0], isStored: true, length: 1 }) },
    ),
    { minLength: 5, maxLength: 150, size: 'max' },
  ),
  pageSize: fc.integer({ min: 1, max: 120 }),
  failures: fc.array(fc.boolean(), { maxLength: 12, size: 'max' }),
  storingMs: fc.integer({ min: 0, max: 200 }),
  order: fc.constantFrom('arrival' as const, 'sorted' as const),
  maxHeld: fc.integer({ min: 1, max: 200 }),
})

test('whatever is lost, late, doubled, cut in pages or fails: each stored report comes once, or a gap says so', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ fates, pageSize, failures, storingMs, order, maxHeld }) => {
      const { sink, stored, service, delivered, gaps, vacant, end } = stream({ order, maxHeld })
      const failing = [...failures]
      service.page = from => {
        if (failing.shift() === true) throw new Error('500')
        return stored.filter(each => each.observationsTimestamp >= from).slice(0, pageSize)
      }
      const published: Report[] = []
      let time = 1_700_000_000
      const add = (each: (typeof fates)[number]) => {
        const made = report(time + each.length - 1, { from: time })
        time += each.length
        if (each.isStored) {
          published.push(made)
          setTimeout(() => stored.push(made), storingMs)
        }
        for (const delay of each.delays) {
          // A copy over the wire is an object of its own.
          if (delay !== null) setTimeout(() => sink({ ...made } as Report), delay)
        }
      }
      // The first begins the chain, the last shows that all before it should have come.
      add({ delays: [0], isStored: true, length: 1 })
      await wait(1)
      for (const each of fates) {
        add(each)
        await wait(50)
      }
      await wait(5000)
      add({ delays: [0], isStored: true, length: 1 })
      await wait(200_000)
      end()
      const times = delivered.map(each => each.observationsTimestamp)
      expect(new Set(times).size).toBe(times.length)
      const got = new Set(times)
      const lost = published
        .map(each => each.observationsTimestamp)
        .filter(each => !got.has(each) && !gaps.some(gap => each >= gap.from && each <= gap.to))
      expect(lost).toEqual([])
      // Whoever keeps a cursor is told enough to get to the end.
      const store = { load: async () => ({}), save: async () => undefined }
      const cursors = createCursors({ store, failed: () => undefined })
      for (const each of delivered) cursors.consumed(each)
      for (const gap of gaps) cursors.skipped(gap)
      for (const [from = 0, to = 0] of vacant) cursors.skipped({ feedID: feedA, from, to })
      expect(cursors.frontier(feedA)).toBe(time - 1)
      // What the service has is never said to be missing there.
      const falsely = published
        .map(each => each.observationsTimestamp)
        .filter(each =>
          gaps.some(gap => gap.cause === 'upstream' && each >= gap.from && each <= gap.to),
        )
      expect(falsely).toEqual([])
      if (order === 'sorted') expect(times).toEqual([...times].sort((one, other) => one - other))
      if (failures.length < 6) expect(gaps.filter(gap => gap.cause === 'unavailable')).toEqual([])
      if (order === 'arrival') expect(gaps.filter(gap => gap.cause === 'bound')).toEqual([])
    }),
    { numRuns: 60 },
  )
}, 60_000)
