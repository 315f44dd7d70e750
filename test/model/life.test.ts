// The life of a stream’s connections, in virtual time: whatever the other side does, the rules of `life.ts` are kept.
//
//   npm test -- test/model                          a few hundred runs
//   MODEL_RUNS=100000 npm test -- test/model/life    the long form
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { feedB, type Life, startLife } from './life.js'
import { commandRules, LIMIT, randomOf, runs } from './runs.js'
import type { Manner } from './upstream.js'

type Command = fc.AsyncCommand<object, Life>

/** A command, with its name for the message of a failure. */
function command(name: string, run: (life: Life) => unknown): Command {
  return {
    check: () => true,
    async run(_model, life) {
      await run(life)
      await life.time.pass(1)
      life.check()
    },
    toString: () => name,
  }
}

const manners: readonly Manner[] = [
  ...(['accept', 'accept', 'accept', 'flap', 'refuse', 'refuse', 'stall'] as const),
  ...[400, 401, 403, 404, 429, 500, 502, 503].map(status => ({ status })),
  { status: 429, retryAfter: 7 },
  { status: 429, retryAfter: 86_400 },
  { status: 503, retryAfter: 30 },
  { status: 403, retryAfter: 20 },
]
const closeCodes = [1000, 1001, 1005, 1006, 1008, 1009, 1011, 1012, 1013, 1014, 4000, 4401]

const origin = fc.nat(2)
const time = fc.oneof(
  { arbitrary: fc.integer({ min: 1, max: 800 }), weight: 20 },
  { arbitrary: fc.integer({ min: 800, max: 12_000 }), weight: 30 },
  { arbitrary: fc.integer({ min: 12_000, max: 120_000 }), weight: 15 },
  { arbitrary: fc.constantFrom(600_000, 3_600_000), weight: 1 },
)

function pick<Item>(items: readonly Item[], at: number): Item | undefined {
  return items[at % Math.max(1, items.length)]
}

const commands: readonly fc.Arbitrary<Command>[] = [
  time.map(ms => command(`pass(${ms})`, ({ time }) => time.pass(ms))),
  time.map(ms => command(`pass(${ms})`, ({ time }) => time.pass(ms))),
  fc.tuple(origin, fc.constantFrom(...manners)).map(([at, manner]) =>
    command(`manner(${at}, ${JSON.stringify(manner)})`, ({ upstream }) => {
      const each = pick(upstream.origins, at)
      if (each !== undefined) each.manner = manner
    }),
  ),
  fc.constantFrom(...manners).map(manner =>
    command(`manner(all, ${JSON.stringify(manner)})`, ({ upstream }) => {
      for (const each of upstream.origins) each.manner = manner
    }),
  ),
  origin.map(at =>
    command(`reset(${at})`, ({ upstream }) => {
      const line = pick(upstream.open(), at)
      if (line !== undefined) upstream.end(line, 1006, new Error('read ECONNRESET'))
    }),
  ),
  fc.constant(
    command('reset(all)', ({ upstream }) => {
      for (const line of upstream.open()) upstream.end(line, 1006, new Error('read ECONNRESET'))
    }),
  ),
  fc.tuple(origin, fc.constantFrom(...closeCodes)).map(([at, code]) =>
    command(`close(${at}, ${code})`, ({ upstream }) => {
      const line = pick(upstream.open(), at)
      if (line !== undefined) upstream.end(line, code)
    }),
  ),
  origin.map(at =>
    command(`stall(${at})`, life => {
      const line = pick(life.upstream.open(), at)
      if (line !== undefined) life.stall(line)
    }),
  ),
  fc.constant(
    command('stall(all)', life => {
      for (const line of life.upstream.open()) life.stall(line)
    }),
  ),
  fc.nat(30_000).map(ms => command(`stop(${ms})`, life => life.stop(ms))),
  fc.nat(3_600_000).map(ms => command(`sleep(${ms})`, life => life.sleep(ms))),
  fc.constant(command('publish', life => life.publish())),
]

const changes: readonly fc.Arbitrary<Command>[] = [
  fc.constant(command('subscribe', life => life.change(() => life.stream.subscribe([feedB])))),
  fc.constant(command('unsubscribe', life => life.change(() => life.stream.unsubscribe([feedB])))),
]

const endings: readonly fc.Arbitrary<Command>[] = [
  fc.constant(command('close', life => (life.isClosed ? undefined : life.close()))),
  fc.constant(command('abort', life => life.abort())),
]

interface Kind {
  readonly name: string
  readonly origins: number
  readonly maxReconnectAttempts: number
  readonly commands: readonly fc.Arbitrary<Command>[]
  readonly count: number
}

const forever = Number.POSITIVE_INFINITY
const kinds: readonly Kind[] = [
  {
    name: 'one origin, tried for ever',
    origins: 1,
    maxReconnectAttempts: forever,
    commands,
    count: 60,
  },
  { name: 'one origin, five attempts', origins: 1, maxReconnectAttempts: 5, commands, count: 40 },
  {
    name: 'three origins, tried for ever',
    origins: 3,
    maxReconnectAttempts: forever,
    commands,
    count: 60,
  },
  {
    name: 'three origins, five attempts',
    origins: 3,
    maxReconnectAttempts: 5,
    commands,
    count: 50,
  },
  {
    name: 'two origins, feeds that change, an end at any time',
    origins: 2,
    maxReconnectAttempts: forever,
    commands: [...commands, ...changes, ...changes, ...endings],
    count: 60,
  },
]

test.each(kinds)(
  '$name: it connects in time, reports its state, notices dead connections, and leaves nothing',
  async ({ origins, maxReconnectAttempts, commands, count }) => {
    let lives = 0
    await fc.assert(
      fc.asyncProperty(
        fc.commands([...commands], commandRules(40)),
        fc.integer(),
        async (each, seed) => {
          const life = startLife({ origins, maxReconnectAttempts, random: randomOf(seed) })
          try {
            await fc.asyncModelRun(() => ({ model: {}, real: life }), each)
            await life.recover()
            await life.finish()
            lives++
          } finally {
            life.time.end()
          }
        },
      ),
      runs(count),
    )
    expect(lives).toBeGreaterThan(0)
  },
  LIMIT,
)
