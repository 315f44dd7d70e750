import { describe, expect, test } from '@jest/globals'
import pino from 'pino'
import winston from 'winston'
import { type Logger, pinoLogger, winstonLogger } from '../../plugins/logging/index.js'
import { ConformanceError, testLogger } from '../../testing/index.js'

const nothing = { write: () => true }
const silent = new (class extends (require('node:stream')
  .Writable as typeof import('node:stream').Writable) {
  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done()
  }
})()
const levels = (write: (...given: unknown[]) => unknown): Logger => ({
  debug: write,
  info: write,
  warn: write,
  error: write,
})

describe('loggers without a fault', () => {
  const loggers: readonly (readonly [string, () => Logger])[] = [
    ['pino', () => pinoLogger(pino({ level: 'debug' }, nothing))],
    [
      'winston',
      () =>
        winstonLogger(
          winston.createLogger({
            level: 'debug',
            transports: [new winston.transports.Stream({ stream: silent })],
          }),
        ),
    ],
    ['console', () => new console.Console(silent) as Logger],
    ['a logger of one level', () => ({ warn: () => undefined })],
  ]
  for (const [name, make] of loggers)
    test(name, async () => {
      const { levels: written } = await testLogger(make(), { patience: 5000 })
      expect(written.length).toBeGreaterThan(0)
    }, 30_000)
})

const lines: string[] = []
const faults: readonly (readonly [rule: string, name: string, make: () => Logger])[] = [
  [
    'throws',
    'writes bigints as JSON',
    () => levels((_, facts) => lines.push(JSON.stringify(facts))),
  ],
  [
    'throws',
    'wants facts',
    () => levels((message, facts) => lines.push(`${message} ${Object.keys(facts as object)}`)),
  ],
  [
    'rejects',
    'is asynchronous, and fails',
    () =>
      levels(async (_, facts) => {
        lines.push(`${BigInt((facts as { line?: number })?.line ?? Number.NaN)}`)
      }),
  ],
  [
    'argument',
    'adds the time to the facts',
    () =>
      levels((_, facts) => {
        if (typeof facts === 'object' && !Object.isFrozen(facts))
          Object.assign(facts as object, { time: 1 })
      }),
  ],
  [
    'time',
    'waits',
    () =>
      levels(() => {
        for (const end = performance.now() + 30; performance.now() < end; );
      }),
  ],
  [
    'timers',
    'flushes in an interval',
    () => {
      let isStarted = false
      return levels(() => {
        if (!isStarted) setInterval(() => lines.splice(0), 10_000).ref()
        isStarted = true
      })
    },
  ],
]

describe('a fault is found', () => {
  for (const [rule, name, make] of faults)
    test(`${rule}: a logger that ${name}`, async () => {
      const thrown = await testLogger(make(), {
        lines: 1,
        patience: rule === 'time' ? 20 : 5000,
      }).catch((error: unknown) => error)
      expect(thrown).toBeInstanceOf(ConformanceError)
      expect((thrown as ConformanceError).faults.map(each => each.rule)).toContain(rule)
    }, 60_000)
})

test('what is no logger is refused', async () => {
  await expect(testLogger({} as Logger)).rejects.toMatchObject({ code: 'VALIDATION' })
  await expect(
    testLogger(
      levels(() => 0),
      { line: 1 } as object,
    ),
  ).rejects.toThrow("unknown option 'line' of testLogger; did you mean 'lines'?")
})
