import fc from 'fast-check'
import type { Gap } from '../../../report/gap.js'
import type { Report } from '../../../report/report.js'
import { feedA, report, stream, wait } from './continuity.js'

/** The fate of a report: its delay over each of two origins, if it arrives at all, and whether it is stored. */
interface Fate {
  readonly delays: readonly (number | null)[]
  readonly isStored: boolean
  readonly length: number
}

/** A stream whose reports are lost, late or doubled, and whose service fails now and then. */
export interface Scenario {
  readonly fates: readonly Fate[]
  readonly pageSize: number
  readonly failures: readonly boolean[]
  readonly storingMs: number
  readonly order: 'arrival' | 'sorted'
  readonly maxHeld: number
}

const fate = fc.record({
  delays: fc.array(fc.option(fc.integer({ min: 0, max: 3000 }), { freq: 2 }), {
    minLength: 1,
    maxLength: 2,
  }),
  isStored: fc.boolean(),
  length: fc.integer({ min: 1, max: 5 }),
})

export const scenarios: fc.Arbitrary<Scenario> = fc.record({
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

/** The result of a scenario. */
export interface Outcome {
  readonly delivered: readonly Report[]
  readonly gaps: readonly Gap[]
  /** The times of reports that a cursor has passed that were neither delivered nor announced by then. */
  readonly passed: readonly number[]
  /** Where the cursor is at the end. */
  readonly cursor: number
  /** The reports that the service has. */
  readonly published: readonly Report[]
  /** The time of the last report. */
  readonly last: number
}

/** Runs a scenario to its end. */
export async function runScenario(scenario: Scenario): Promise<Outcome> {
  const { fates, pageSize, failures, storingMs, order, maxHeld } = scenario
  const { sink, stored, service, delivered, gaps, limits, end } = stream({ order, maxHeld })
  const failing = [...failures]
  service.page = from => {
    if (failing.shift() === true) throw new Error('500')
    return stored.filter(each => each.observationsTimestamp >= from).slice(0, pageSize)
  }
  const published: Report[] = []
  const passed: number[] = []
  const cursorOf = () => {
    const times = delivered.map(each => each.observationsTimestamp)
    return Math.min(Math.max(...times), (limits.get(feedA) ?? Number.POSITIVE_INFINITY) - 1)
  }
  const checkCursor = () => {
    const cursor = cursorOf()
    const got = new Set(delivered.map(each => each.observationsTimestamp))
    for (const { observationsTimestamp: at } of published) {
      const isAnnounced = gaps.some(({ from, to }) => at >= from && at <= to)
      if (at <= cursor && !got.has(at) && !isAnnounced) passed.push(at)
    }
  }
  let time = 1_700_000_000
  const add = (each: Fate) => {
    const made = report(time + each.length - 1, { from: time })
    time += each.length
    if (each.isStored) {
      published.push(made)
      setTimeout(() => stored.push(made), storingMs)
    }
    for (const delay of each.delays) {
      // A copy over the wire is a separate object.
      if (delay !== null) setTimeout(() => sink({ ...made } as Report), delay)
    }
  }
  // The first begins the chain, the last shows that all before it should have arrived.
  add({ delays: [0], isStored: true, length: 1 })
  await wait(1)
  for (const each of fates) {
    add(each)
    await wait(50)
    checkCursor()
  }
  await wait(5000)
  add({ delays: [0], isStored: true, length: 1 })
  for (let waits = 0; waits < 200; waits++) {
    await wait(1000)
    checkCursor()
  }
  end()
  return { delivered, gaps, passed, cursor: cursorOf(), published, last: time - 1 }
}
