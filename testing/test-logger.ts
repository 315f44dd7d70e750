import { createClient } from '../client/client.js'
import { ValidationError } from '../core/errors.js'
import { number, readOptions, type Schema, withDefault } from '../core/options.js'
import { type Logger, LogLevel, logging } from '../plugins/logging/index.js'
import { Findings } from './faults.js'
import { copyOf, describeThrown, findDifference, wait, watchTimers } from './probe.js'

/** Options of `testLogger`. */
export interface LoggerTestOptions {
  /** How many lines are written in a row. @default 2000 */
  readonly lines?: number
  /** Milliseconds that one line may take. @default 250 */
  readonly patience?: number
}

/** What `testLogger` found out about a logger that broke no rule. */
export interface LoggerTestResult {
  /** The levels that the logger writes. */
  readonly levels: readonly string[]
  /** Microseconds that a line takes. */
  readonly costPerLine: number
}

const schema = {
  lines: withDefault(2000, number({ min: 1, max: 1_000_000, whole: true })),
  patience: withDefault(250, number({ min: 1, max: 60_000 })),
} satisfies Schema<LoggerTestOptions>

const levels = ['debug', 'info', 'warn', 'error'] as const

/** Facts as plugins may give them. Most loggers write them as JSON. */
function makeFacts(): readonly (readonly [string, unknown])[] {
  const cyclic: Record<string, unknown> = { name: 'cyclic' }
  cyclic.self = cyclic
  const error = new Error('an error', { cause: new Error('its cause') })
  return [
    ['no facts', undefined],
    ['an empty object', {}],
    ['a bigint', { price: 3_214_581_200_000_000_000_000n }],
    ['an object that holds itself', cyclic],
    ['an error', error],
    ['an error in a field', { error, thrown: undefined }],
    ['an object without a prototype', Object.assign(Object.create(null), { feedID: '0x' })],
    [
      'a Map, a Set, a date and bytes',
      { map: new Map([[1, 2n]]), set: new Set([1n]), at: new Date(0), bytes: new Uint8Array(3) },
    ],
    ['a function and a symbol', { call: () => undefined, symbol: Symbol('a symbol') }],
    ['an invalid date', { at: new Date(Number.NaN) }],
    ['a list', { feedIDs: ['0x0003', null, Number.NaN, Number.POSITIVE_INFINITY] }],
    ['a frozen object', Object.freeze({ host: 'service.test' })],
    ['a very long text', { text: 'x'.repeat(1_000_000) }],
    ['a deep object', Array.from({ length: 60 }).reduce<object>(inner => ({ inner }), {})],
  ]
}

const messages = [
  '',
  'a line',
  'two\nlines',
  '100 % %s %d %o {}',
  '\u0000\u001b[31m\ud800',
  'x'.repeat(1_000_000),
]

/** A test of one logger. It calls the logger as the plugin `logging` does. */
class LoggerTest {
  readonly #logger: Logger
  readonly #findings: Findings
  readonly #patience: number

  constructor(logger: Logger, findings: Findings, patience: number) {
    this.#logger = logger
    this.#findings = findings
    this.#patience = patience
  }

  /** Writes a line, and checks how the logger takes it. Returns the milliseconds that it took. */
  write(level: (typeof levels)[number], message: string, facts: unknown, what: string): number {
    const before = copyOf(facts)
    const start = performance.now()
    let returned: unknown
    try {
      returned =
        facts === undefined ? this.#logger[level]?.(message) : this.#logger[level]?.(message, facts)
    } catch (thrown) {
      this.#findings.add('throws', `${level} threw for ${what}: ${describeThrown(thrown)}`)
    }
    const took = performance.now() - start
    this.#findings.check(
      took <= this.#patience,
      'time',
      `${level} took ${Math.round(took)} ms for ${what}`,
    )
    const promise = returned as PromiseLike<unknown> | undefined
    if (typeof promise?.then === 'function')
      promise.then(undefined, thrown =>
        this.#findings.add(
          'rejects',
          `${level} returned a promise that rejected for ${what}: ${describeThrown(thrown)}`,
        ),
      )
    const difference = findDifference(before, copyOf(facts), '')
    this.#findings.check(
      difference === undefined,
      'argument',
      `${level} changed ${what}: ${difference}`,
    )
    return took
  }

  /** Runs a client whose requests fail, with the logger at every level. */
  async testClient(): Promise<void> {
    const failing = async (): Promise<Response> => new Response('{"message":"no"}', { status: 500 })
    const clients = [1, 2].map(() =>
      createClient({
        endpoint: 'https://service.test',
        wsEndpoint: 'wss://service.test',
        fetch: failing,
        plugins: [logging({ logger: this.#logger, logLevel: LogLevel.DEBUG })],
      }),
    )
    const requests = clients.map(client => client.listFeeds().catch((error: unknown) => error))
    for (const error of await Promise.all(requests))
      this.#findings.check(
        /500/.test(describeThrown(error)),
        'client',
        `a request of a client with the logger ended with ${describeThrown(error)}`,
      )
    await Promise.all(clients.map(client => client.close()))
  }
}

/**
 * Checks the rules of a logger: an object with some of `debug`, `info`, `warn` and `error`. Rejects
 * with a ConformanceError that names each broken rule. Works under every test runner.
 *
 * @example
 * ```ts
 * test('my logger keeps the rules', async () => {
 *   await testLogger(myLogger())
 * })
 * ```
 */
export async function testLogger(
  logger: Logger,
  options?: LoggerTestOptions,
): Promise<LoggerTestResult> {
  const { lines, patience } = readOptions('testLogger', options, schema)
  // The plugin checks the shape of a logger.
  logging({ logger })
  const findings = new Findings('logger')
  const written = levels.filter(level => logger[level] !== undefined)
  if (written.length === 0) throw new ValidationError('logger must have a level')
  const test = new LoggerTest(logger, findings, patience)
  const timers = watchTimers()
  let costPerLine = 0
  try {
    for (const level of written) {
      findings.where = level
      for (const [what, facts] of makeFacts()) test.write(level, 'a line', facts, what)
      for (const message of messages)
        test.write(level, message, undefined, `a message of ${message.length} characters`)
    }
    findings.where = 'many lines'
    const [level] = written as [(typeof levels)[number]]
    let ms = 0
    for (let line = 0; line < lines; line++)
      ms += test.write(level, `line ${line}`, { line }, 'a line of many')
    costPerLine = (1000 * ms) / lines
    findings.where = 'two clients'
    await test.testClient()
    // A promise that a line has returned may reject later.
    await wait(20)
    findings.where = 'the end'
    for (const origin of timers.left()) findings.add('timers', `a timer still runs: ${origin}`)
  } finally {
    timers.end()
  }
  findings.finish()
  return { levels: written, costPerLine }
}
