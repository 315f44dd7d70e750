import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import fc from 'fast-check'
import { createCursors } from '../../../client/stream/cursors.js'
import type { Report } from '../../../report/report.js'
import type { CursorStore } from '../../../stores/file-cursors.js'

const feedA = `0x0003${'aa'.repeat(30)}`
const feedB = `0x0003${'bb'.repeat(30)}`

beforeEach(() => void jest.useFakeTimers())
afterEach(() => {
  expect(jest.getTimerCount()).toBe(0)
  jest.useRealTimers()
})

const report = (to: number, from = to, feedID = feedA) =>
  ({ feedID, validFromTimestamp: from, observationsTimestamp: to }) as Report
const wait = (ms: number) => jest.advanceTimersByTimeAsync(ms)

/** Cursors over a store in memory, and all that was saved. */
async function open(
  given: Readonly<Record<string, unknown>> = {},
  change: Partial<CursorStore> = {},
) {
  const saved: Readonly<Record<string, number>>[] = []
  const errors: Error[] = []
  const store: CursorStore = {
    load: async () => given as Record<string, number>,
    save: async cursors => void saved.push({ ...cursors }),
    ...change,
  }
  const cursors = createCursors({ store, failed: error => void errors.push(error) })
  const start = await cursors.load()
  return { cursors, saved, errors, start }
}

describe('cursors', () => {
  test('begin where the store says, and keep the feeds that are not read now', async () => {
    const { cursors, start, saved } = await open({
      [feedA.toUpperCase().replace('X', 'x')]: 100,
      [feedB]: 7,
    })
    expect([...start]).toEqual([
      [feedA, 100],
      [feedB, 7],
    ])
    cursors.consumed(report(101))
    await cursors.flush()
    expect(saved).toEqual([{ [feedA]: 101, [feedB]: 7 }])
  })

  test('wait below what has not been consumed, whatever came after it', async () => {
    const { cursors } = await open({ [feedA]: 100 })
    for (const time of [101, 103, 104, 107]) cursors.consumed(report(time))
    expect(cursors.frontier(feedA)).toBe(101)
    cursors.consumed(report(102))
    expect(cursors.frontier(feedA)).toBe(104)
    cursors.skipped({ feedID: feedA, from: 105, to: 106 })
    expect(cursors.frontier(feedA)).toBe(107)
    await cursors.flush()
  })

  test('do not pass what is skipped ahead of what is still to be consumed', async () => {
    const { cursors } = await open({ [feedA]: 100 })
    cursors.skipped({ feedID: feedA, from: 103, to: 110 })
    expect(cursors.frontier(feedA)).toBe(100)
    cursors.consumed(report(102, 101))
    expect(cursors.frontier(feedA)).toBe(110)
    await cursors.flush()
  })

  test('begin with the first report where the store knows nothing', async () => {
    const { cursors } = await open()
    expect(cursors.frontier(feedA)).toBeUndefined()
    cursors.skipped({ feedID: feedA, from: 1, to: 2 })
    cursors.consumed(report(50))
    cursors.consumed(report(49))
    expect(cursors.frontier(feedA)).toBe(50)
    await cursors.flush()
  })

  test.each([
    ['from 102 on', 102],
    ['from 0 on', 0],
    ['of its moment only', 4_000_000_000],
  ])('are not moved by a time far in the future that claims to hold %s', async (_name, from) => {
    const { cursors } = await open({ [feedA]: 100 })
    cursors.consumed(report(101))
    cursors.consumed(report(4_000_000_000, from))
    expect(cursors.frontier(feedA)).toBe(101)
    for (const time of [102, 103]) cursors.consumed(report(time))
    cursors.consumed(report(900, 104))
    expect(cursors.frontier(feedA)).toBe(900)
    await cursors.flush()
  })

  test('go back where a report had passed over what comes after it', async () => {
    const { cursors } = await open({ [feedA]: 100 })
    cursors.consumed(report(101))
    cursors.consumed(report(461, 102))
    expect(cursors.frontier(feedA)).toBe(461)
    for (const time of [102, 103, 105]) cursors.consumed(report(time))
    expect(cursors.frontier(feedA)).toBe(103)
    cursors.consumed(report(104))
    expect(cursors.frontier(feedA)).toBe(105)
    for (let time = 107; time <= 470; time++) cursors.consumed(report(time))
    expect(cursors.frontier(feedA)).toBe(105)
    cursors.skipped({ feedID: feedA, from: 106, to: 106 })
    expect(cursors.frontier(feedA)).toBe(470)
    await cursors.flush()
  })

  test('stay where a long range led to when the feed goes on from there', async () => {
    const { cursors } = await open({ [feedA]: 100 })
    cursors.consumed(report(461, 101))
    cursors.consumed(report(300, 300))
    cursors.consumed(report(470, 462))
    expect(cursors.frontier(feedA)).toBe(470)
    cursors.consumed(report(900, 471))
    cursors.consumed(report(1800, 901))
    expect(cursors.frontier(feedA)).toBe(1800)
    await cursors.flush()
  })

  test('are where a set of numbers says they are', async () => {
    const steps = fc.array(
      fc.record({
        at: fc.integer({ min: 1, max: 80 }),
        length: fc.integer({ min: 1, max: 9 }),
        isGap: fc.boolean(),
      }),
      { maxLength: 60 },
    )
    await fc.assert(
      fc.asyncProperty(steps, async all => {
        const { cursors } = await open({ [feedA]: 0 })
        const seen = new Set<number>()
        for (const { at, length, isGap } of all) {
          const range = Array.from({ length }, (_, index) => at + index)
          // Reports of one network never overlap; gaps may.
          if (!isGap && range.some(time => seen.has(time))) continue
          for (const time of range) seen.add(time)
          if (isGap) cursors.skipped({ feedID: feedA, from: at, to: at + length - 1 })
          else cursors.consumed(report(at + length - 1, at))
          let frontier = 0
          while (seen.has(frontier + 1)) frontier++
          expect(cursors.frontier(feedA)).toBe(frontier)
        }
        await cursors.flush()
      }),
    )
  })

  test('of a feed that is unsubscribed begin anew, after what was still queued', async () => {
    const { cursors, saved } = await open({ [feedA]: 100, [feedB]: 7 })
    cursors.consumed(report(103))
    cursors.forget([feedA, 'unknown'])
    cursors.consumed(report(102))
    cursors.consumed(report(104))
    expect(cursors.frontier(feedA)).toBe(100)
    cursors.skipped({ feedID: feedA, from: 90_002, to: 90_003 })
    cursors.consumed(report(90_000, 89_999))
    expect(cursors.frontier(feedA)).toBe(90_000)
    cursors.consumed(report(90_001))
    expect(cursors.frontier(feedA)).toBe(90_003)
    cursors.consumed(report(90_006))
    expect(cursors.frontier(feedA)).toBe(90_003)
    await cursors.flush()
    expect(saved).toEqual([{ [feedA]: 90_003, [feedB]: 7 }])
  })

  test('hold a bounded number of missing ranges', async () => {
    const { cursors } = await open({ [feedA]: 0 })
    for (let time = 2; time <= 6000; time += 2) cursors.consumed(report(time))
    expect(cursors.frontier(feedA)).toBeGreaterThan(3000)
    await cursors.flush()
  })
})

describe('saving', () => {
  test('happens once in an interval at most, and not at all without need', async () => {
    const { cursors, saved } = await open({ [feedA]: 100 })
    for (let time = 101; time <= 140; time++) {
      cursors.consumed(report(time))
      await wait(100)
    }
    expect(saved.length).toBeGreaterThan(2)
    expect(saved.length).toBeLessThan(6)
    await wait(2000)
    const { length } = saved
    expect(saved.at(-1)).toEqual({ [feedA]: 140 })
    await wait(10_000)
    await cursors.flush()
    expect(saved).toHaveLength(length)
  })

  test('at the end saves what is new, after what is being saved', async () => {
    let finish: () => void = () => undefined
    const order: number[] = []
    const { cursors } = await open(
      { [feedA]: 100 },
      {
        save: cursors => {
          order.push(cursors[feedA] as number)
          return new Promise<void>(resolve => {
            finish = resolve
          })
        },
      },
    )
    cursors.consumed(report(101))
    await wait(1000)
    cursors.consumed(report(102))
    const flushed = cursors.flush()
    await wait(5000)
    expect(order).toEqual([101])
    finish()
    await wait(0)
    expect(order).toEqual([101, 102])
    finish()
    await flushed
  })

  test('that fails is reported, and tried again with what is newest', async () => {
    let failures = 2
    const saved: unknown[] = []
    const { cursors, errors } = await open(
      { [feedA]: 100 },
      {
        save: async cursors => {
          if (failures-- > 0) throw new Error('disk full')
          saved.push({ ...cursors })
        },
      },
    )
    cursors.consumed(report(101))
    await wait(1000)
    cursors.consumed(report(102))
    await wait(5000)
    expect(errors.map(error => error.message)).toEqual(
      Array(2).fill('cursors could not be saved: disk full'),
    )
    expect(saved).toEqual([{ [feedA]: 102 }])
  })

  test.each([
    [
      'fails',
      async () => Promise.reject(new Error('corrupt')),
      /^cursors could not be read: corrupt$/,
    ],
    ['gives null', async () => null as never, /^cursors could not be read: .* Null$/],
    ['gives nothing', async () => undefined as never, /^cursors could not be read: .* Undefined$/],
    ['gives a list', async () => [] as never, /no plain object but Array/],
    ['gives a Map', async () => new Map() as never, /no plain object but Map/],
    ['gives what is no time', async () => ({ [feedA]: -1 }), /the cursor of 0x0003a+ must be/],
  ])('does not write over what could not be read: a load that %s', async (_name, load, message) => {
    const { cursors, saved, errors, start } = await open({}, { load })
    expect(start.size).toBe(0)
    expect(errors).toHaveLength(1)
    expect(errors[0]?.message).toMatch(message)
    cursors.consumed(report(101))
    await wait(5000)
    await cursors.flush()
    expect(saved).toEqual([])
  })

  test('that fails at the end is not tried again, until there is something new', async () => {
    let tries = 0
    const { cursors, errors } = await open(
      { [feedA]: 100 },
      {
        save: async () => {
          tries++
          throw new RangeError('disk full')
        },
      },
    )
    cursors.consumed(report(101))
    await Promise.all([cursors.flush(), cursors.flush()])
    expect(tries).toBe(2)
    await wait(60_000)
    expect(tries).toBe(2)
    expect(errors[0]?.cause).toMatchObject({ name: 'RangeError', message: 'disk full' })
    cursors.consumed(report(102))
    await wait(60_000)
    expect(tries).toBe(3)
  })

  test('goes on after overlapping flushes, with what came meanwhile', async () => {
    const finish: (() => void)[] = []
    const order: unknown[] = []
    const { cursors } = await open(
      { [feedA]: 100 },
      {
        save: cursors => {
          order.push(cursors[feedA])
          return new Promise<void>(resolve => void finish.push(resolve))
        },
      },
    )
    cursors.consumed(report(101))
    const first = cursors.flush()
    await wait(0)
    cursors.consumed(report(102))
    const second = cursors.flush()
    finish.shift()?.()
    await first
    await wait(0)
    cursors.consumed(report(103))
    expect(jest.getTimerCount()).toBe(0)
    finish.shift()?.()
    await second
    await wait(1000)
    finish.shift()?.()
    await wait(5000)
    expect(order).toEqual([101, 102, 103])
  })

  test('keeps no process alive', async () => {
    const { cursors } = await open({ [feedA]: 100 })
    const started = jest.spyOn(globalThis, 'setTimeout')
    cursors.consumed(report(101))
    const timer = started.mock.results[0]?.value as NodeJS.Timeout
    started.mockRestore()
    expect(timer.hasRef()).toBe(false)
    await cursors.flush()
  })

  test('a store without load is rejected by name', () => {
    const failed = () => undefined
    expect(() => createCursors({ store: {} as never, failed })).toThrow(/cursors\.load/)
  })
})
