import { afterEach, expect, test } from '@jest/globals'
import type { StreamScope } from '../../../client/contract/scope.js'
import { platformTiming } from '../../../client/clock.js'
import {
  type MarketGuardOptions,
  type MarketReason,
  marketGuard,
  marketReasons,
} from '../../../plugins/market-guard/index.js'
import {
  judge,
  MarketFeed,
  observe,
  type ReadFields,
} from '../../../plugins/market-guard/judgement.js'
import { readSettings } from '../../../plugins/market-guard/policy.js'
import type { Report } from '../../../report/report.js'
import { inForm } from '../../support/tier.js'

// Most reports are not read when they come, since they can't change the verdict. This test has each
// read by a guard of its own, in random days of a market, and compares the verdicts.

/** Days that are tried, each of 400 reports. */
const DAYS = inForm(6, 60)
const START = 1_800_000_000_000
const e15 = 10n ** 15n
const idOf = (version: number): string => `0x100${version.toString(16)}${'ab'.repeat(30)}`

/** Random numbers from a seed, in [0, 1). */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) / 2 ** 24
  }
}

function createDay(version: number, seed: number) {
  const random = createRandom(seed)
  const oneOf = <Value>(...values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)] as Value
  const busy = oneOf(0.9, 0.02)
  let now = START
  let price = 100_000
  let marketStatus = 2
  let seen = START
  return (): { now: number; fields: ReadFields } => {
    now += oneOf(1, 20, 1000, 1000, 1000, 1000, random() < 0.02 ? 400_000 : 1000)
    price *=
      1 + (random() - 0.5) * oneOf(0.0001, 0.0001, 0.0001, 0.004, random() < 0.1 ? 0.8 : 0.01)
    if (random() < 0.02) marketStatus = oneOf(0, 1, 2, 2, 3, 4, 5)
    if (random() < busy) seen = now - Math.floor(random() * 500)
    const [low, high] = [random(), random()].map(
      each => each * oneOf(1, 10, 10, random() < 0.1 ? 9000 : 20),
    )
    const mid = BigInt(Math.round(random() < 0.01 ? 0 : price)) * e15
    const quote = {
      bid: mid - BigInt(Math.round(low as number)) * e15,
      ask: mid + BigInt(Math.round(high as number)) * e15 - (random() < 0.01 ? 9000n * e15 : 0n),
    }
    const head = { observationsTimestamp: now - oneOf(0, 100, 300), expiresAt: START + 10 ** 10 }
    if (version === 3) return { now, fields: { ...head, ...quote, price: mid } }
    const time = { lastSeenTimestampNs: BigInt(seen) * 1_000_000n }
    return { now, fields: { ...head, ...quote, ...time, mid, marketStatus } }
  }
}

/** What the guards of a test do at the end of their streams: they stop their timers. */
const ends: (() => void)[] = []
afterEach(() => {
  for (const end of ends.splice(0)) end()
})

/** A guard of a stream without sockets. */
function openGuard(
  options: MarketGuardOptions,
  { now, passed }: { readonly now: () => number; readonly passed: () => void },
) {
  const guard = marketGuard(options)
  let tick = (): void => undefined
  const scope = {
    kind: 'stream',
    client: { now, timing: platformTiming },
    cursors: { acknowledge: () => undefined },
    log: {},
    signal: new AbortController().signal,
    defer: (end: () => void) => ends.push(end),
    events: {
      on(_event: string, listener: (status: object) => void) {
        tick = () => listener({ type: 'clock' })
        return () => undefined
      },
      emit: () => undefined,
    },
  } as unknown as StreamScope
  return { guard, sink: guard.report?.(passed, scope), tick: () => tick() }
}

test.each([3, 11])('V%i: the verdicts are those of a guard that reads each report', version => {
  let judged = 0
  for (let seed = 1; seed <= DAYS; seed++) {
    const feedID = idOf(version)
    const options = {
      hours: { [feedID]: '24/5' as const },
      catalogue: false,
      jumpTime: 20_000,
      drop: true,
    }
    const next = createDay(version, seed)
    const reference = new MarketFeed(feedID, readSettings(options).policyOf(feedID), '24/5')
    let now = START
    let newest = 0
    let passed = false
    const { guard, sink, tick } = openGuard(options, {
      now: () => now,
      passed: () => {
        passed = true
      },
    })
    let during: MarketReason = 'no-report'
    for (let count = 0; count < 400; count++) {
      const { now: present, fields } = next()
      // The timer of a stream fires before its sockets are read.
      const isLong = present - now > 10_000
      now = present
      if (isLong) tick()
      const time = fields.observationsTimestamp as number
      const isNewest = time > newest
      if (isNewest) {
        newest = time
        observe(reference, fields, now)
      }
      during = judge(reference, now)
      const report = {
        feedID,
        observationsTimestamp: time,
        get decoded() {
          return fields
        },
      }
      passed = false
      sink?.(report as unknown as Report)
      if (isNewest)
        expect([seed, count, passed]).toEqual([seed, count, marketReasons[during].tradable])
      judged++
      // A verdict that nobody asks for is not looked at, so that calm reports pile up.
      if (count % 7 !== 0) continue
      expect([seed, count, guard.of(feedID).reason]).toEqual([seed, count, during])
    }
  }
  expect(judged).toBe(400 * DAYS)
})

test('a value that stands still ends at its age, however calm the reports are', () => {
  let now = START
  let passed = 0
  const feedID = idOf(11)
  const options = { hours: { [feedID]: '24/5' as const }, catalogue: false, drop: true }
  const { sink } = openGuard(options, { now: () => now, passed: () => passed++ })
  for (let second = 0; second < 400; second++) {
    now = START + 1000 * second
    const decoded = {
      ...{ observationsTimestamp: now, expiresAt: now + 10 ** 9, marketStatus: 2 },
      ...{ mid: 100n * e15, bid: 100n * e15, ask: 100n * e15 },
      lastSeenTimestampNs: BigInt(START) * 1_000_000n,
    }
    sink?.({ feedID, observationsTimestamp: now, decoded } as unknown as Report)
  }
  expect(passed).toBe(300)
})
