// The present of a client against clocks as an adversary, in random worlds: a machine's clock that is wrong, that steps, or that
// sleeps; a feed, an origin or a service that is ahead; answers with dates, with wrong ones, and without.
//
//   npm test -- test/model/present.test                          a thousand worlds
//   PRESENT_WORLDS=100000 npm test -- test/model/present.test    the long form
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { GRACE, Present } from '../../client/present.js'
import type { Report } from '../../report/report.js'
import { createRandom, type Random } from '../support/random.js'

const WORLDS = Number(process.env.PRESENT_WORLDS ?? 1000)
const SECONDS = 90
const START = 1_700_000_000_000
const SIZES = [-3_600_000, -60_000, -30_000, -8000, 8000, 60_000, 3_600_000]

const adversaries = [
  'none',
  'constant',
  'step',
  'sleep',
  'feed ahead',
  'origin ahead',
  'date',
  'date of one host',
  'service and its dates',
] as const

/** What a world was like, and what was found in it. */
interface Found {
  readonly name: string
  readonly isDated: boolean
  /** Most genuine reports of one feed that were taken to be of the future, and lies that were not. */
  readonly early: number
  readonly let: number
  /** Milliseconds by which the present was behind the truth at the end. */
  readonly behind: number
}

const real = { performance: globalThis.performance, setTimeout, clearTimeout }
let monotonic = 0
let timers: { due: number; run: () => void }[] = []

beforeEach(() => {
  const set = (run: () => void, ms: number) => {
    const timer = { due: monotonic + ms, run, unref: () => undefined }
    timers.push(timer)
    return timer
  }
  const clear = (timer: unknown) => {
    timers = timers.filter(each => each !== timer)
  }
  Object.assign(globalThis, { setTimeout: set, clearTimeout: clear })
  Object.defineProperty(globalThis, 'performance', {
    configurable: true,
    writable: true,
    value: { now: () => monotonic },
  })
})

afterEach(() => {
  const { performance, ...others } = real
  Object.assign(globalThis, others)
  Object.defineProperty(globalThis, 'performance', {
    configurable: true,
    writable: true,
    value: performance,
  })
})

function live(random: Random): Found {
  const adversary = random.of(adversaries)
  // A wrong date of all there are is told from a wrong clock by the reports alone.
  const isDated = adversary.includes('date') || random.chance(0.6)
  const feeds = random.of([1, 1, 2, 3, 5])
  const origins = adversary === 'origin ahead' ? 2 : random.of([1, 1, 2])
  const delay = random.pick(200, 1800)
  const size = random.of(SIZES)
  const at = adversary === 'constant' ? 0 : random.pick(10_000, 40_000)
  const date = (): number => {
    const error = adversary === 'date' || adversary === 'service and its dates' ? size : 0
    return Math.floor((truth + error) / 1000) * 1000
  }
  let truth = START
  let slept = 0
  monotonic = 0
  timers = []
  const isOn = (): boolean => truth - START >= at
  const wallError = (): number => {
    if (adversary === 'constant') return size
    return adversary === 'step' && isOn() ? size : 0
  }
  const answers: { at: number; give: () => void }[] = []
  const present: Present = new Present(
    () => truth + wallError(),
    () => {
      const sent = monotonic
      const took = random.pick(5, 400)
      const headers = new Headers(isDated ? { date: new Date(date()).toUTCString() } : {})
      answers.push({
        at: truth + took,
        give: () => present.dated('rest', headers, sent, monotonic),
      })
    },
  )
  present.connected()
  if (adversary === 'date of one host') {
    const headers = new Headers({ date: new Date(START + size).toUTCString() })
    present.dated('origin', headers, 0, 0)
    present.dated('rest', new Headers({ date: new Date(START).toUTCString() }), 0, 0)
  }
  const early = new Map<number, number>()
  let let_ = 0
  const last = new Map<string, number>()
  for (let second = 0; second < SECONDS; second++) {
    for (let tenth = 0; tenth < 10; tenth++) {
      truth += 100
      if (adversary === 'sleep' && second === 30 && tenth === 0) {
        truth += 600_000
        slept += 600_000
      }
      monotonic = truth - START - slept
      for (const timer of timers.filter(({ due }) => due <= monotonic)) {
        timers.splice(timers.indexOf(timer), 1)
        timer.run()
      }
      for (const answer of answers.splice(0)) {
        if (answer.at <= truth) answer.give()
        else answers.push(answer)
      }
    }
    for (let origin = 0; origin < origins; origin++)
      for (let feed = 0; feed < feeds; feed++) {
        const isLie =
          isOn() &&
          ((adversary === 'feed ahead' && feed === 0) ||
            (adversary === 'origin ahead' && origin === 0))
        const isOff = adversary === 'service and its dates'
        const error = isLie ? 3_600_000 : isOff ? size : 0
        const seconds = Math.floor((truth - delay + error) / 1000)
        const key = `${origin} ${feed}`
        const before = last.get(key) ?? seconds - 1
        last.set(key, seconds)
        const report = {
          feedID: `feed ${feed}`,
          origin: `origin ${origin}`,
          validFromTimestamp: Math.abs(seconds - before) > 100 ? seconds : before + 1,
          observationsTimestamp: seconds,
        } as Report
        const ms = 1000 * seconds
        if (ms > present.horizon) present.look(report, ms)
        const isFuture = ms > present.now() + GRACE
        if (isLie && !isFuture) let_++
        if (!isLie && isFuture) early.set(feed, (early.get(feed) ?? 0) + 1)
      }
  }
  present.end()
  const most = Math.max(0, ...early.values()) / origins
  const error = adversary === 'service and its dates' ? size : 0
  return { name: adversary, isDated, early: most, let: let_, behind: truth + error - present.now() }
}

test('genuine reports are of the present after three at the latest, and lies are of the future', () => {
  const bad: string[] = []
  for (let seed = 1; seed <= WORLDS; seed++) {
    const found = live(createRandom(seed))
    // The first reports of a feed, until they have said together what time it is.
    const isWrong = found.early > 4 || found.let > 0 || found.behind > GRACE
    if (isWrong) bad.push(`${seed}: ${JSON.stringify(found)}`)
  }
  expect(bad.slice(0, 20)).toEqual([])
})

/** A present that no answer helps, with a machine that is wrong by some milliseconds, and a way to let reports come. */
function undated(error: () => number = () => -3_600_000) {
  monotonic = 0
  timers = []
  const present = new Present(
    () => START + error() + monotonic,
    () => undefined,
  )
  const report = (feed: number, origin = 'origin'): void => {
    const ms = 1000 * Math.floor((START + monotonic) / 1000)
    const given = { feedID: `feed ${feed}`, origin, observationsTimestamp: ms / 1000 } as Report
    if (ms > present.horizon) present.look(given, ms)
  }
  const seconds = (count: number, each: () => void): void => {
    for (let second = 0; second < count; second++) {
      monotonic += 1000
      each()
    }
  }
  return { present, report, seconds }
}

test('feeds that were quiet for a minute have no say', () => {
  const { present, report, seconds } = undated()
  for (let feed = 0; feed < 10; feed++) report(feed)
  seconds(50, () => report(0))
  expect(present.offsetMs).toBe(0)
  seconds(20, () => report(0))
  expect(present.offsetMs / 1000).toBeCloseTo(3600, -1)
})

test('a consensus is found among more feeds than are followed', () => {
  const { present, report, seconds } = undated()
  seconds(5, () => {
    for (let feed = 0; feed < 10_000; feed++) report(feed)
  })
  expect(present.offsetMs / 1000).toBeCloseTo(3600, -1)
})

test('a step back leaves the present as it is, though reports had agreed with it', () => {
  let error = 0
  const { present, report, seconds } = undated(() => error)
  seconds(20, () => report(0))
  error = -60_000
  seconds(5, () => undefined)
  expect(present.now()).toBe(START + monotonic)
  seconds(20, () => report(0))
  expect(present.now()).toBe(START + monotonic)
})
