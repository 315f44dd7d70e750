import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { CursorStore } from '../../../client/stores/file-cursors.js'
import { Cursors } from '../../../client/stream/cursors.js'
import { checkStreamOptions } from '../../../client/stream/options.js'
import { DataStreamsError } from '../../../core/errors.js'
import type { Report } from '../../../report/report.js'

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

/** The errors of the cursors that were opened last. */
let seen: Error[] = []

/** Cursors over a store in memory, and all that was saved. */
async function open(
  given: Readonly<Record<string, unknown>> = {},
  change: Partial<CursorStore> = {},
  pending: ReadonlySet<number> = new Set(),
  saveInterval = 1000,
) {
  const saved: Readonly<Record<string, number>>[] = []
  const errors: Error[] = []
  seen = errors
  const store: CursorStore = {
    load: async () => given as Record<string, number>,
    save: async cursors => void saved.push({ ...cursors }),
    ...change,
  }
  const cursors = new Cursors({
    store,
    saveInterval,
    now: Date.now,
    failed: error => void errors.push(error),
    earliest: feedID => (feedID === feedA && pending.size > 0 ? Math.min(...pending) : undefined),
  })
  const start = await cursors.load()
  return { cursors, saved, errors, start }
}

describe('cursors', () => {
  test('say for how long a change has not been saved, and how far a missing report holds one back', async () => {
    let isBroken = true
    const pending = new Set<number>()
    const save = async (): Promise<void> => {
      if (isBroken) throw new Error('the disk is full')
    }
    const { cursors } = await open({ [feedA]: 100 }, { save }, pending)
    const newestOf = (feedID: string) => (feedID === feedA ? 131 : undefined)
    expect(cursors.metrics(() => undefined)).toEqual({ unsavedMs: 0, heldBackMs: 0 })
    pending.add(102)
    cursors.acknowledged(report(131))
    await wait(60_000)
    expect(cursors.metrics(newestOf)).toEqual({ unsavedMs: 60_000, heldBackMs: 30_000 })
    isBroken = false
    pending.clear()
    cursors.acknowledged(report(131))
    await wait(2000)
    expect(cursors.metrics(newestOf)).toEqual({ unsavedMs: 0, heldBackMs: 0 })
    await cursors.flush()
  })

  test('begin where the store says, and keep the feeds that are not read now', async () => {
    const { cursors, start, saved } = await open({
      [feedA.toUpperCase().replace('X', 'x')]: 100,
      [feedB]: 7,
    })
    expect([...start]).toEqual([
      [feedA, 100],
      [feedB, 7],
    ])
    cursors.acknowledged(report(101))
    await cursors.flush()
    expect(saved).toEqual([{ [feedA]: 101, [feedB]: 7 }])
  })

  test('are at the newest report that was taken, whatever came before it', async () => {
    const { cursors } = await open({ [feedA]: 100 })
    for (const time of [101, 104, 103]) cursors.acknowledged(report(time))
    expect(cursors.cursor(feedA)).toBe(104)
    cursors.acknowledged(report(90))
    expect(cursors.cursor(feedA)).toBe(104)
    expect(cursors.cursor(feedB)).toBeUndefined()
    cursors.acknowledged(report(50, 50, feedB))
    cursors.acknowledged(report(49, 49, feedB))
    expect(cursors.cursor(feedB)).toBe(50)
    await cursors.flush()
  })

  test('stay below their limit, wherever it is, and go on without it', async () => {
    const { cursors, saved } = await open({ [feedA]: 100 })
    cursors.limit(feedB, 49)
    cursors.limit(feedA, 102)
    for (const time of [101, 103]) cursors.acknowledged(report(time))
    cursors.acknowledged(report(50, 50, feedB))
    expect([cursors.cursor(feedA), cursors.cursor(feedB)]).toEqual([101, 48])
    cursors.limit(feedA, 90)
    expect(cursors.cursor(feedA)).toBe(89)
    cursors.limit(feedA, 0)
    expect(cursors.cursor(feedA)).toBe(0)
    cursors.limit(feedA, 110)
    expect(cursors.cursor(feedA)).toBe(103)
    cursors.lower(feedA, 104)
    cursors.lower(feedA, 108)
    cursors.acknowledged(report(120))
    expect(cursors.cursor(feedA)).toBe(103)
    await wait(1000)
    cursors.limit(feedA, undefined)
    cursors.limit(feedB, undefined)
    await wait(1000)
    expect(saved).toEqual([
      { [feedA]: 103, [feedB]: 48 },
      { [feedA]: 120, [feedB]: 50 },
    ])
    cursors.limit(feedA, undefined)
    await cursors.flush()
    expect(saved).toHaveLength(2)
  })

  test('stay below what was delivered and is not taken, from the first report on', async () => {
    const pending = new Set<number>()
    const { cursors } = await open({ [feedB]: 7 }, {}, pending)
    function deliver(time: number): void {
      pending.add(time)
      cursors.arrived(report(time))
    }
    for (const time of [50, 40, 60]) deliver(time)
    expect(cursors.cursor(feedA)).toBe(39)
    for (const [time, cursor] of [
      [60, 39],
      [40, 49],
      [50, 60],
    ] as const) {
      pending.delete(time)
      cursors.acknowledged(report(time))
      expect(cursors.cursor(feedA)).toBe(cursor)
    }
    deliver(45)
    expect(cursors.cursor(feedA)).toBe(44)
    // It was dropped.
    pending.delete(45)
    expect(cursors.cursor(feedA)).toBe(60)
    await cursors.flush()
  })

  test.each([
    ['in seconds', feedA, 1],
    ['in milliseconds', `0x1003${'cc'.repeat(30)}`, 1000],
  ])('of a feed %s do not pass the present, but for five seconds', async (_name, feedID, unit) => {
    jest.setSystemTime(1_700_000_000_500)
    const now = Math.floor(1_700_000_000.5 * unit)
    const { cursors } = await open({ [feedID]: now - 100 })
    cursors.acknowledged(report(now + 3600 * unit, now, feedID))
    expect(cursors.cursor(feedID)).toBe(now - 100)
    cursors.acknowledged(report(now + 5 * unit + 1, now, feedID))
    expect(cursors.cursor(feedID)).toBe(now - 100)
    cursors.acknowledged(report(now - 50, now - 99, feedID))
    expect(cursors.cursor(feedID)).toBe(now - 50)
    cursors.acknowledged(report(now + 5 * unit, now, feedID))
    expect(cursors.cursor(feedID)).toBe(now + 5 * unit)
    await cursors.flush()
  })

  test('begin at the present at the latest, and are put back where they are later', async () => {
    jest.setSystemTime(1_700_000_000_500)
    const now = 1_700_000_000
    const { cursors, errors } = await open({ [feedB]: now + 3600 })
    cursors.acknowledged(report(now + 3600))
    expect(cursors.cursor(feedA)).toBe(now)
    cursors.arrived(report(now + 3600))
    expect(cursors.cursor(feedA)).toBe(now)
    cursors.acknowledged(report(now - 7, now - 7, feedB))
    cursors.acknowledged(report(now - 6, now - 6, feedB))
    expect(cursors.cursor(feedB)).toBe(now - 6)
    expect(errors.map(String)).toEqual([
      expect.stringMatching(`feed ${feedB} at ${now + 3600} is later than the present`),
    ])
    await cursors.flush()
  })

  test('of a feed that is ahead for good are at the present', async () => {
    jest.setSystemTime(1_700_000_000_500)
    const now = 1_700_000_000
    const { cursors } = await open({ [feedA]: now - 20 })
    for (let time = now + 3600; time < now + 3610; time++) cursors.acknowledged(report(time))
    // Ten at once, as of a page, say nothing of what is on its way.
    expect(cursors.cursor(feedA)).toBe(now - 20)
    jest.setSystemTime(1_700_000_005_499)
    cursors.acknowledged(report(now + 3610))
    expect(cursors.cursor(feedA)).toBe(now - 20)
    jest.setSystemTime(1_700_000_005_500)
    cursors.acknowledged(report(now + 3611))
    expect(cursors.cursor(feedA)).toBe(now + 5)
    cursors.acknowledged(report(now - 1))
    expect(cursors.cursor(feedA)).toBe(now + 5)
    await cursors.flush()
  })
})

describe('loading', () => {
  const feedMs = `0x1003${'cc'.repeat(30)}`

  test.each([
    ['milliseconds of a feed of seconds', feedA, 1_700_000_000_000],
    ['the first time that is none in seconds', feedA, 1e11],
    ['far too many milliseconds', feedMs, 1e15],
    ['seconds of a feed of milliseconds', feedMs, 1_700_000_000],
  ])('parts from the others what can be no time: %s', async (_what, feedID, wrong) => {
    const { cursors, start, saved, errors } = await open({ [feedID]: wrong, [feedB]: 7 })
    expect([...start]).toEqual([[feedB, 7]])
    expect(errors).toMatchObject([{ code: 'CURSOR_STORE' }])
    expect(errors[0]?.message).toMatch(`the cursor of ${feedID} is ${wrong}, and must be`)
    expect(errors[0]?.message).toMatch(feedID === feedA ? 'in seconds' : 'in milliseconds')
    expect(cursors.cursor(feedID)).toBeUndefined()
    cursors.acknowledged(report(8, 8, feedB))
    await wait(0)
    expect(saved).toEqual([{ [feedID]: wrong, [feedB]: 8 }])
    const now = feedID === feedA ? Date.now() / 1000 : Date.now()
    cursors.acknowledged(report(Math.floor(now), 1, feedID))
    await wait(50)
    expect(saved.at(-1)).toEqual({ [feedID]: Math.floor(now), [feedB]: 8 })
    await cursors.flush()
  })

  test('takes what can be a time', async () => {
    const given = { [feedA]: 1e11 - 1, [feedB]: 0, [feedMs]: 1e14 - 1 }
    const { start, errors } = await open(given)
    expect(Object.fromEntries(start)).toEqual(given)
    expect(errors).toEqual([])
  })

  test('that takes long is reported, and given up after 70 seconds: what it gives then changes nothing', async () => {
    let answer: (cursors: Record<string, number>) => void = () => undefined
    const load = () =>
      new Promise<Record<string, number>>(resolve => {
        answer = resolve
      })
    const opening = open({}, { load })
    const errors = seen
    await wait(9999)
    expect(errors).toEqual([])
    await wait(1)
    expect(errors).toMatchObject([
      { code: 'CURSOR_STORE', message: expect.stringMatching(/could not be read for 10 s/) },
    ])
    await wait(60_000)
    const { cursors, start, saved } = await opening
    expect(start.size).toBe(0)
    expect(errors.at(-1)?.message).toMatch(
      /read: the store has not answered for 70 s\. The stream starts without them, and saves none$/,
    )
    answer({ [feedA]: 100 })
    cursors.acknowledged(report(101))
    await wait(5000)
    await cursors.flush()
    expect(saved).toEqual([])
    expect(cursors.cursor(feedA)).toBe(101)
  })

  test('without a lock that fails for a moment is loading all the same, and saving waits for the lock', async () => {
    let isFull = true
    let released = 0
    const lock = async () => {
      if (isFull) throw new Error('no space left on the device')
      return async () => void released++
    }
    const { cursors, start, saved, errors } = await open({ [feedA]: 100 }, { lock })
    expect([...start]).toEqual([[feedA, 100]])
    expect(errors).toMatchObject([
      {
        code: 'CURSOR_STORE',
        message:
          'cursors could not be locked: no space left on the device. The stream reads them all the same, and saves them once they can be locked',
      },
    ])
    cursors.acknowledged(report(101))
    await wait(1000)
    expect(saved).toEqual([])
    expect(errors.at(-1)?.message).toBe('cursors could not be saved: no space left on the device')
    isFull = false
    await wait(1000)
    expect(saved).toEqual([{ [feedA]: 101 }])
    await cursors.flush()
    expect(released).toBe(1)
  })

  test('without a lock that another stream has by then saves nothing', async () => {
    let isFull = true
    const lock = async () => {
      if (isFull) throw new Error('no space left on the device')
      throw new DataStreamsError('the file belongs to process 7', { code: 'CURSOR_STORE' })
    }
    const { cursors, saved, errors } = await open({ [feedA]: 100 }, { lock })
    isFull = false
    cursors.acknowledged(report(101))
    await wait(5000)
    await cursors.flush()
    expect(saved).toEqual([])
    expect(errors.at(-1)?.message).toBe(
      'cursors are no longer saved: the file belongs to process 7',
    )
  })
})

describe('saving', () => {
  test('happens once in an interval at most, and not at all without need', async () => {
    const { cursors, saved } = await open({ [feedA]: 100 })
    for (let time = 101; time <= 140; time++) {
      cursors.acknowledged(report(time))
      await wait(100)
    }
    // At once, and then after 50, 100, 200, 400, 800 and 1000 ms, or with the next change.
    expect(saved.map(cursors => cursors[feedA])).toEqual([101, 102, 103, 107, 115, 125, 135])
    await wait(2000)
    const { length } = saved
    expect(saved.at(-1)).toEqual({ [feedA]: 140 })
    await wait(10_000)
    await cursors.flush()
    expect(saved).toHaveLength(length)
  })

  test('happens at once where feeds have their first cursors, together for those of a moment', async () => {
    const feedIDs = Array.from({ length: 1000 }, (_, at) => `0x0003${String(at).padStart(60, '0')}`)
    const { cursors, saved } = await open({}, {}, new Set(), 30_000)
    cursors.arrived(report(100))
    await wait(0)
    expect(saved).toEqual([{ [feedA]: 99 }])
    for (const feedID of feedIDs) {
      cursors.acknowledged(report(100, 100, feedID))
      await wait(1)
    }
    await wait(50)
    expect(Object.keys(saved.at(-1) ?? {})).toHaveLength(1001)
    expect(saved.length).toBeLessThan(25)
    for (let time = 101; time <= 115; time++) {
      cursors.acknowledged(report(time))
      await wait(30_000)
    }
    const { length } = saved
    cursors.acknowledged(report(200))
    await wait(0)
    cursors.acknowledged(report(201))
    await wait(29_999)
    expect(saved).toHaveLength(length + 1)
    cursors.acknowledged(report(60, 60, feedB))
    await wait(0)
    expect(saved.at(-1)).toMatchObject({ [feedA]: 201, [feedB]: 60 })
    await cursors.flush()
  })

  test('happens at once where a loaded cursor moves that missing reports have held back', async () => {
    const given = { [feedA]: 100, [feedB]: 7 }
    const { cursors, saved } = await open(given, {}, new Set(), 30_000)
    // The first report after a restart; until those between have come, early saves store nothing new.
    for (const feedID of [feedA, feedB]) cursors.limit(feedID, 8)
    for (let time = 150; time < 185; time++) {
      cursors.acknowledged(report(time))
      await wait(10)
    }
    expect(saved.at(-1)).toEqual({ [feedA]: 7, [feedB]: 7 })
    cursors.limit(feedA, undefined)
    await wait(50)
    expect(saved.at(-1)).toEqual({ [feedA]: 184, [feedB]: 7 })
    cursors.acknowledged(report(185))
    await wait(50)
    expect(saved.at(-1)).toEqual({ [feedA]: 185, [feedB]: 7 })
    // Only the first time: what moves again waits for its turn.
    const { length } = saved
    await wait(30_000)
    for (let time = 200; time < 220; time++) {
      cursors.limit(feedA, time)
      cursors.acknowledged(report(time))
      cursors.limit(feedA, undefined)
      await wait(1000)
    }
    expect(saved.length - length).toBeLessThan(10)
    await cursors.flush()
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
    cursors.acknowledged(report(101))
    await wait(1000)
    cursors.acknowledged(report(102))
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
    cursors.acknowledged(report(101))
    await wait(0)
    cursors.acknowledged(report(102))
    await wait(5000)
    expect(errors).toMatchObject(
      Array(2).fill({ code: 'CURSOR_STORE', message: 'cursors could not be saved: disk full' }),
    )
    expect(saved).toEqual([{ [feedA]: 102 }])
  })

  test.each([
    [
      'fails',
      async () => Promise.reject(new Error('corrupt')),
      /^cursors could not be read: corrupt\. The stream starts without them, and saves none$/,
    ],
    ['gives null', async () => null as never, /^cursors could not be read: .* Null\./],
    ['gives nothing', async () => undefined as never, /^cursors could not be read: .* Undefined\./],
    ['gives a list', async () => [] as never, /no plain object but Array/],
    ['gives a Map', async () => new Map() as never, /no plain object but Map/],
    ['gives what is no time', async () => ({ [feedA]: -1 }), /the cursor of 0x0003a+ must be/],
  ])('does not write over what could not be read: a load that %s', async (_name, load, message) => {
    const { cursors, saved, errors, start } = await open({}, { load })
    expect(start.size).toBe(0)
    expect(errors).toHaveLength(1)
    expect(errors[0]?.message).toMatch(message)
    cursors.acknowledged(report(101))
    await wait(5000)
    await cursors.flush()
    expect(saved).toEqual([])
  })

  test('that takes long is reported again and again, and the next waits for it', async () => {
    let finish: () => void = () => undefined
    const order: number[] = []
    const { cursors, errors } = await open(
      { [feedA]: 100 },
      {
        save(cursors) {
          order.push(cursors[feedA] as number)
          return new Promise(resolve => {
            finish = resolve
          })
        },
      },
    )
    cursors.acknowledged(report(101))
    await wait(0)
    cursors.acknowledged(report(102))
    await wait(9999)
    expect(errors).toEqual([])
    await wait(25_001)
    expect(errors).toMatchObject([
      { code: 'CURSOR_STORE', message: expect.stringMatching(/saved for 10 s, and the next save/) },
      { code: 'CURSOR_STORE', message: expect.stringMatching(/saved for 30 s/) },
    ])
    expect(order).toEqual([101])
    finish()
    await wait(0)
    expect(order).toEqual([101, 102])
    finish()
    await cursors.flush()
    expect(errors).toHaveLength(2)
  })

  test('is given up by the stream whose store says that it belongs to another', async () => {
    let tries = 0
    const { cursors, errors } = await open(
      { [feedA]: 100 },
      {
        async save() {
          tries++
          throw new DataStreamsError('it belongs to process 7', { code: 'CURSOR_STORE' })
        },
      },
    )
    cursors.acknowledged(report(101))
    await wait(0)
    cursors.acknowledged(report(102))
    await wait(60_000)
    await cursors.flush()
    expect(tries).toBe(1)
    expect(errors).toMatchObject([
      {
        code: 'CURSOR_STORE',
        message: 'cursors are no longer saved: it belongs to process 7',
      },
    ])
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
    cursors.acknowledged(report(101))
    await Promise.all([cursors.flush(), cursors.flush()])
    expect(tries).toBe(2)
    await wait(60_000)
    expect(tries).toBe(2)
    expect(errors[0]?.cause).toMatchObject({ name: 'RangeError', message: 'disk full' })
    cursors.acknowledged(report(102))
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
    cursors.acknowledged(report(101))
    const first = cursors.flush()
    await wait(0)
    cursors.acknowledged(report(102))
    const second = cursors.flush()
    finish.shift()?.()
    await first
    await wait(0)
    cursors.acknowledged(report(103))
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
    cursors.acknowledged(report(101))
    const timer = started.mock.results[0]?.value as NodeJS.Timeout
    started.mockRestore()
    expect(timer.hasRef()).toBe(false)
    await cursors.flush()
  })

  test('a store without load is rejected by name', () => {
    expect(() => checkStreamOptions({ cursors: {} as never })).toThrow(/cursors\.load/)
  })
})
