// What a stream delivers, held against the ledger of what was published, in virtual time: each stored report once, or in
// an announced gap, whatever happens on the way.
//
//   npm test -- test/model                                a few hundred runs
//   MODEL_RUNS=100000 npm test -- test/model/continuity    the long form
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { ContinuityOptions } from '../../index.js'
import { type Continuum, type Fate, type PageFault, startContinuum } from './continuum.js'
import { commandRules, LIMIT, randomOf, runs } from './runs.js'

type Command = fc.AsyncCommand<object, Continuum>

function command(name: string, run: (real: Continuum) => unknown): Command {
  return {
    check: () => true,
    async run(_model, real) {
      await run(real)
      await real.time.pass(1)
      real.check()
    },
    toString: () => name,
  }
}

const fates: readonly Fate[] = [
  { isStreamed: true, isStored: true, copies: 1, lateBy: 0 },
  { isStreamed: true, isStored: true, copies: 1, lateBy: 0 },
  { isStreamed: true, isStored: true, copies: 3, lateBy: 400 },
  { isStreamed: true, isStored: true, copies: 1, lateBy: 3000 },
  { isStreamed: true, isStored: false, copies: 2, lateBy: 150 },
  { isStreamed: false, isStored: true, copies: 1, lateBy: 0 },
  { isStreamed: false, isStored: true, copies: 1, lateBy: 0 },
  { isStreamed: false, isStored: false, copies: 1, lateBy: 0 },
]
const pageFaults: readonly PageFault[] = [
  { status: 500 },
  { status: 503 },
  { status: 404 },
  { status: 429 },
  { status: 429, retryAfter: 5 },
  { status: 429, retryAfter: 3600 },
  'partial',
  'partial',
  'short',
  'slow',
  'reset',
]
const feed = fc.nat(1)

const commands: readonly fc.Arbitrary<Command>[] = [
  fc
    .tuple(
      feed,
      fc.integer({ min: 1, max: 30 }),
      fc.constantFrom(100, 1000, 5000, 200_000),
      fc.constantFrom(...fates),
    )
    .map(([at, count, every, fate]) =>
      command(`publish(${at}, ${count} every ${every}, ${JSON.stringify(fate)})`, async real => {
        for (let made = 0; made < count; made++) {
          real.publish(at, fate)
          await real.time.pass(every)
        }
      }),
    ),
  fc
    .tuple(feed, fc.array(fc.constantFrom(...fates), { minLength: 2, maxLength: 12 }))
    .map(([at, each]) =>
      command(`mixed(${at}, ${JSON.stringify(each)})`, async real => {
        for (const fate of each) {
          real.publish(at, fate)
          await real.time.pass(1000)
        }
      }),
    ),
  fc
    .tuple(
      feed,
      fc.constantFrom(
        { seconds: 604_801, count: 1 },
        { seconds: -1000, count: 1 },
        { seconds: -1000, count: 3 },
        { seconds: -7200, count: 5 },
      ),
    )
    .map(([at, { seconds, count }]) =>
      command(`outlier(${at}, ${count} at ${seconds})`, async real => {
        real.outlier(at, seconds, count)
        // The service answers requests for them.
        await real.time.pass(3000)
      }),
    ),
  fc
    .oneof(
      { arbitrary: fc.integer({ min: 1, max: 5000 }), weight: 10 },
      { arbitrary: fc.integer({ min: 5000, max: 250_000 }), weight: 5 },
      { arbitrary: fc.constantFrom(400_000, 4_000_000), weight: 1 },
    )
    .map(ms => command(`pass(${ms})`, ({ time }) => time.pass(ms))),
  fc.nat(1).map(at =>
    command(`disconnect(${at})`, ({ upstream }) => {
      const line = upstream.open()[at]
      if (line !== undefined) upstream.end(line, 1006)
    }),
  ),
  fc.constant(
    command('disconnect(all)', ({ upstream }) => {
      for (const line of upstream.open()) upstream.end(line, 1001)
    }),
  ),
  fc.constantFrom('accept' as const, 'refuse' as const).map(manner =>
    command(`manner(${manner})`, ({ upstream }) => {
      for (const origin of upstream.origins) origin.manner = manner
    }),
  ),
]

const failures: readonly fc.Arbitrary<Command>[] = [
  fc
    .tuple(fc.constantFrom(...pageFaults), fc.integer({ min: 1, max: 12 }))
    .map(([fault, times]) =>
      command(`fail(${JSON.stringify(fault)}, ${times})`, real =>
        real.fail(Array.from({ length: times }, () => fault)),
      ),
    ),
  fc
    .array(fc.constantFrom(...pageFaults), { minLength: 1, maxLength: 8 })
    .map(faults => command(`fail(${JSON.stringify(faults)})`, real => real.fail(faults))),
]

interface Kind {
  readonly name: string
  readonly origins: number
  readonly continuity: ContinuityOptions
  readonly commands: readonly fc.Arbitrary<Command>[]
  readonly count: number
}

const all = [...commands, ...failures]
const kinds: readonly Kind[] = [
  { name: 'as they come', origins: 1, continuity: {}, commands, count: 20 },
  {
    name: 'as they come, from two origins, pages that fail',
    origins: 2,
    continuity: {},
    commands: all,
    count: 20,
  },
  {
    name: 'as they come, and not far back',
    origins: 1,
    continuity: { maxBackfill: 20_000 },
    commands: all,
    count: 15,
  },
  {
    name: 'as they come, and from far back',
    origins: 1,
    continuity: { maxBackfill: 86_400_000 },
    commands: all,
    count: 15,
  },
  { name: 'sorted', origins: 1, continuity: { order: 'sorted' }, commands, count: 20 },
  {
    name: 'sorted, few held, pages that fail',
    origins: 2,
    continuity: { order: 'sorted', reorderBuffer: 5, reorderTimeout: 10_000 },
    commands: all,
    count: 20,
  },
]

test.each(kinds)(
  '$name: each stored report is delivered once, or announced as missing',
  async ({ origins, continuity, commands, count }) => {
    let runsDone = 0
    await fc.assert(
      fc.asyncProperty(
        fc.commands([...commands], commandRules(25)),
        fc.integer(),
        async (each, seed) => {
          const real = startContinuum({ origins, continuity, random: randomOf(seed) })
          try {
            await real.time.pass(1000)
            await fc.asyncModelRun(() => ({ model: {}, real }), each)
            await real.finish()
            runsDone++
          } finally {
            real.time.end()
          }
        },
      ),
      runs(count),
    )
    expect(runsDone).toBeGreaterThan(0)
  },
  LIMIT,
)
