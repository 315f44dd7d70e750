import { Console } from 'node:console'
import { Writable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { pino } from 'pino'
import winston from 'winston'
import { APIError, type Logger, pinoLogger, winstonLogger } from '../../index.js'
import type { ConformanceError } from '../../testing/faults.js'
import { testLogger } from '../../testing/test-logger.js'
import { failureOf, pause } from '../support/waiting.js'
import { documentedRules } from './documented-rules.js'

/** The clock of the tests about speed. It stands still unless a logger moves it. */
function startClock() {
  const clock = { ms: 0, processorMs: 0, interruptions: 0 }
  jest.spyOn(performance, 'now').mockImplementation(() => clock.ms)
  const use = process.resourceUsage()
  jest.spyOn(process, 'resourceUsage').mockImplementation(() => ({
    ...use,
    userCPUTime: 1000 * clock.processorMs,
    systemCPUTime: 0,
    involuntaryContextSwitches: clock.interruptions,
  }))
  return {
    work(ms: number): void {
      clock.ms += ms
      clock.processorMs += ms
    },
    /** The logger waits, and its thread does nothing else. */
    block(ms: number): void {
      clock.ms += ms
    },
    /** Another process has the core. */
    interrupt(ms: number): void {
      clock.ms += ms
      clock.interruptions++
    },
  }
}
let clock: ReturnType<typeof startClock>
beforeEach(() => {
  clock = startClock()
})

/** A timer that a logger has left. */
let started: NodeJS.Timeout | undefined
afterEach(() => {
  clearInterval(started)
  jest.restoreAllMocks()
})

/** A stream that counts what is written. */
function sink() {
  const texts: string[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      texts.push(String(chunk))
      done()
    },
  })
  return { texts, stream }
}

function createWinston(stream: Writable, options: winston.LoggerOptions = {}): winston.Logger {
  const transports = [new winston.transports.Stream({ stream })]
  return winston.createLogger({ level: 'debug', transports, ...options })
}

const loggers: readonly (readonly [string, (stream: Writable) => Logger])[] = [
  ['pino', stream => pino({ level: 'debug' }, stream)],
  ['a child of pino', stream => pino({ level: 'debug' }, stream).child({ service: 'prices' })],
  ['pinoLogger', stream => pinoLogger(pino({ level: 'debug' }, stream))],
  ['winstonLogger', stream => winstonLogger(createWinston(stream))],
  [
    'winstonLogger with other formats',
    stream => {
      const { combine, errors, simple, splat } = winston.format
      const format = combine(errors({ stack: true }), splat(), simple())
      return winstonLogger(createWinston(stream, { format }))
    },
  ],
  ['console', stream => new Console(stream, stream)],
]

describe('loggers without a fault', () => {
  test.each(loggers)('%s', async (_name, create) => {
    const { texts, stream } = sink()
    const result = await testLogger(create(stream))
    expect(result).toEqual({
      levels: ['debug', 'info', 'warn', 'error'],
      lines: expect.any(Number),
      costPerLine: expect.any(Number),
    })
    expect(result.lines).toBeGreaterThan(500)
    // None is lost, not even those whose facts can't be written.
    const lines = texts.join('').split('\n')
    expect(lines.length).toBeGreaterThanOrEqual(result.lines)
  })

  test('one with two levels, and one of promises', async () => {
    const { levels } = await testLogger({ warn() {}, error() {} })
    expect(levels).toEqual(['warn', 'error'])
    await testLogger({ info: async () => pause(1) } as Logger)
  })

  test('one of a class, whose functions need it', async () => {
    class Counter {
      lines = 0
      info(): void {
        this.lines++
      }
    }
    const counter = new Counter()
    expect(await testLogger(counter)).toMatchObject({ lines: counter.lines })
  })
})

/** A logger whose functions do the same at all levels. */
function all(write: (message: string, facts?: Record<string, unknown>) => unknown): Logger {
  return { debug: write, info: write, warn: write, error: write } as Logger
}

const faults: readonly (readonly [string, string, () => unknown])[] = [
  ['shape', 'is missing', () => undefined],
  ['shape', 'is null', () => null],
  ['shape', 'is a function alone', () => () => undefined],
  ['shape', 'has a level that is no function', () => ({ info() {}, debug: true })],
  ['throws', 'writes JSON', () => all((_message, facts) => JSON.stringify(facts))],
  ['throws', 'needs facts', () => all((_message, facts) => (facts as { code: string }).code)],
  [
    'throws',
    'makes texts of facts',
    () => all((_message, facts) => Object.values(facts ?? {}).map(value => `${value}`)),
  ],
  [
    'throws',
    'follows references forever',
    () => {
      const count = (value: unknown): number =>
        typeof value === 'object' && value !== null
          ? Object.values(Object.getOwnPropertyDescriptors(value))
              .map(each => count(each.value))
              .reduce((sum, each) => sum + each, 1)
          : 1
      return all((_message, facts) => count(facts))
    },
  ],
  [
    'throws',
    'fails at errors of requests',
    () => ({
      error(_message: string, facts?: Record<string, unknown>) {
        if (facts?.error instanceof APIError) throw new Error('no')
      },
    }),
  ],
  [
    'rejects',
    'sends lines, and fails at errors',
    () =>
      all(async (_message, facts) => {
        await pause(1)
        if (facts && 'error' in facts) throw new Error('not sent')
      }),
  ],
  [
    'argument',
    'adds a time to the facts',
    () =>
      all((_message, facts) => {
        if (facts && !Object.isFrozen(facts)) facts.receivedAt = Date.now()
      }),
  ],
  [
    'argument',
    'sorts the lists of facts later',
    () =>
      all(async (_message, facts) => {
        await undefined
        const { feedIDs } = (facts ?? {}) as { feedIDs?: string[] }
        feedIDs?.reverse()
      }),
  ],
  [
    'time',
    'works for a long while at long texts',
    () => all(message => clock.work(message.length / 1000)),
  ],
  [
    'time',
    'waits for its server at long texts',
    () => all(message => clock.block(message.length / 1000)),
  ],
  ['rate', 'takes two milliseconds for a line', () => ({ error: () => clock.work(2) })],
  [
    'timers',
    'sends lines each minute',
    () =>
      all(() => {
        started ??= setInterval(() => undefined, 60_000)
      }),
  ],
]

describe('a fault is found', () => {
  test.each(faults)('%s: a logger that %s', async (rule, _name, create) => {
    const error = await failureOf(testLogger(create() as Logger))
    expect(error).toMatchObject({ name: 'ConformanceError', code: 'CONFORMANCE' })
    const { faults } = error as unknown as ConformanceError
    expect(faults.map(each => each.rule)).toEqual([rule])
  })

  test('a message says what was found, and where', async () => {
    const error = await failureOf(testLogger(all((_message, facts) => JSON.stringify(facts))))
    expect(error.message).toBe(
      'logger broke a rule:\n  throws: debug threw TypeError: Do not know how to serialize a BigInt (bigints)',
    )
  })

  test('a timer that ends soon, or holds no process, is none', async () => {
    let isFirst = true
    await testLogger(
      all(() => {
        if (isFirst) setTimeout(() => undefined, 400)
        if (isFirst) started = setInterval(() => undefined, 60_000).unref()
        isFirst = false
      }),
    )
  })
})

test('of a busy machine, where another process has the core, no logger is accused', async () => {
  const { costPerLine } = await testLogger(
    all(() => {
      clock.work(0.5)
      clock.interrupt(100)
    }),
  )
  expect(costPerLine).toBeCloseTo(500)
})

test('the rate is an option', async () => {
  const slow = { warn: () => clock.work(2) }
  const { costPerLine } = await testLogger(slow, { linesPerSecond: 100 })
  expect(costPerLine).toBeCloseTo(2000)
  expect(await failureOf(testLogger(slow, { linesPerSecond: 0 }))).toMatchObject({
    code: 'VALIDATION',
    message: 'linesPerSecond must be at least 1, not 0',
  })
})

test('every rule of the docs has a fault that breaks it', () => {
  const planted = faults.flatMap(([rules]) => rules.split(' '))
  expect(documentedRules('A logger')).toEqual([...new Set([...planted])].sort())
})
