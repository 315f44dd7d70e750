import { APIError } from '../client/contract/errors.js'
import { isThenable } from '../core/async.js'
import { isStreamsError } from '../core/errors.js'
import type { Log, LogFunction } from '../core/log.js'
import { number, readOptions, type Schema, withDefault } from '../core/options.js'
import type { ClientScope } from '../core/scope.js'
import { logging } from '../plugins/logging/index.js'
import { type LevelName, type Logger, levels } from '../plugins/logging/loggers.js'
import { Findings } from './faults.js'
import {
  copyOf,
  describeThrown,
  findDifference,
  outcomeOf,
  show,
  startMeasuring,
  TimerWatch,
} from './probe.js'

/** Options of `testLogger`. */
export interface LoggerTestOptions {
  /** How many lines the logger must take in a second. @default 1000 */
  readonly linesPerSecond?: number
}

/** What `testLogger` found out about a logger that broke no rule. */
export interface LoggerTestResult {
  /** The levels of the logger, lowest first. */
  readonly levels: readonly LevelName[]
  /** How many lines the logger was given. */
  readonly lines: number
  /** How many microseconds the logger takes for a line. */
  readonly costPerLine: number
}

const schema = {
  linesPerSecond: withDefault(1000, number({ min: 1, max: 10_000_000 })),
} satisfies Schema<LoggerTestOptions>

type Facts = Readonly<Record<string, unknown>>

/** Milliseconds that one line may take. */
const LINE_LIMIT = 50
/** Milliseconds for which promises and timers of the logger are waited for. */
const END_LIMIT = 1000
/** How many lines are written at once to measure the cost, and how often. */
const [BATCH, BATCHES] = [100, 4]

const long = 'a line that is much longer than others, '.repeat(2500)

const messages: readonly string[] = [
  'connected',
  '',
  'GET https://service.test/api?ids=%30%d%s%j%o%O%c 100 %, 5%%',
  `{"level":"error"} \\ " ' \${message}`,
  'ünïcode 日本語 🚀 \ud83d',
  '\u001b[31mred\u001b[0m \u0000 \t \u2028',
  long,
]

function cyclic(): object {
  const whole: Record<string, unknown> = { part: [] }
  whole.part = [whole, { whole }]
  return whole
}

function errorWithCauses(): Error {
  const first = Object.assign(new Error('first'), { amount: 5n })
  const error = new Error('third', { cause: new TypeError('second', { cause: first }) })
  return Object.assign(error, { code: 'ECONNRESET', request: cyclic() })
}

function deep(): object {
  let value: object = {}
  for (let depth = 0; depth < 100; depth++) value = { value }
  return value
}

const throwing = (): never => {
  throw new Error('this value can not be read')
}

/** Facts that plugins may give to a line, by what is special about them. */
const factsOf: Readonly<Record<string, () => Facts>> = {
  'plain facts': () => ({ operation: 'getLatestReport', statusCode: 503, isRetryable: true }),
  'no facts': () => ({}),
  lists: () => ({ feedIDs: ['a', 'b'], ranges: [[1, 2], []] }),
  bigints: () => ({ price: 2n ** 190n, report: { fees: [1n, { fee: 2n }] } }),
  'a cyclic object': () => ({ whole: cyclic() }),
  'an error with causes': () => ({ error: errorWithCauses(), cause: 'a text' }),
  'an error of a request': () => ({
    error: new APIError('the service is\nbusy: 100 %d', {
      statusCode: 503,
      cause: errorWithCauses(),
    }),
  }),
  'an error that is its own cause': () => {
    const error = new Error('own')
    return { error: Object.assign(error, { cause: error }) }
  },
  undefined: () => ({ code: undefined, origin: null, list: [undefined] }),
  'numbers that JSON lacks': () => ({ mean: Number.NaN, wait: Infinity, zero: -0 }),
  'a very long text': () => ({ body: long, list: Array(1000).fill('x') }),
  'a getter that throws': () => ({
    response: {
      status: 200,
      get body() {
        return throwing()
      },
    },
  }),
  'conversions that throw': () => ({ value: { toJSON: throwing, toString: throwing } }),
  'a Map and a Set': () => ({ map: new Map([[{}, 1n]]), set: new Set<unknown>([1n, new Map()]) }),
  functions: () => ({ next: () => 1n, make: class {} }),
  symbols: () => ({ kind: Symbol('kind'), [Symbol('hidden')]: 1 }),
  dates: () => ({ at: new Date(0), never: new Date(Number.NaN) }),
  bytes: () => ({ bytes: new Uint8Array(1000), view: new DataView(new ArrayBuffer(8)) }),
  'an object without a prototype': () => ({ plain: Object.assign(Object.create(null), { a: 1 }) }),
  'a deep object': () => ({ deep: deep() }),
  'frozen facts': () => Object.freeze({ list: Object.freeze([1, 2]), at: 1 }),
  'names that loggers use': () =>
    Object.fromEntries(
      [
        ...['level', 'message', 'msg', 'time', 'timestamp', 'name', 'pid', 'hostname', 'v', 'err'],
        ...['error', 'stack', 'splat', 'meta', 'then', 'constructor', 'toString', 'length'],
      ].map(name => [name, `the fact ${name}`]),
    ),
}

/** A line that was given to the logger, to be compared later. */
interface Given {
  readonly facts: Facts
  readonly before: unknown
  readonly where: string
}

/** A test of one logger. */
class LoggerTest {
  lines = 0
  readonly #logger: Logger
  readonly #findings: Findings
  readonly #given: Given[] = []
  readonly #promises: Promise<void>[] = []

  constructor(logger: Logger, findings: Findings) {
    this.#logger = logger
    this.#findings = findings
  }

  /** What the plugin `logging` listens with for this logger: nothing if it refuses it. */
  listen(): Log {
    let listener: Log = {}
    const scope: Partial<ClientScope> = {
      listen(given) {
        listener = given
      },
    }
    try {
      const plugin = logging({ logger: this.#logger, logLevel: 'DEBUG' })
      plugin.setup?.(scope as ClientScope)
    } catch (thrown) {
      if (!isStreamsError(thrown, 'VALIDATION')) throw thrown
      this.#findings.add('shape', thrown.message)
    }
    return listener
  }

  /** Writes a line as the client's log does. */
  write(listener: Log, level: LevelName, ...line: Parameters<LogFunction>): void {
    const findings = this.#findings
    const { where } = findings
    this.lines++
    try {
      const result: unknown = listener[level]?.(...line)
      if (isThenable(result))
        this.#promises.push(
          Promise.resolve(result).then(
            () => undefined,
            thrown => {
              findings.where = where
              findings.add('rejects', `${level} rejected with ${describeThrown(thrown)}`)
            },
          ),
        )
    } catch (thrown) {
      findings.add('throws', `${level} threw ${describeThrown(thrown)}`)
    }
  }

  /** Writes a line with new facts, and again where it took long. */
  #try(listener: Log, level: LevelName, message: string, make: (() => Facts) | undefined): void {
    let least = Number.POSITIVE_INFINITY
    // Another process may have had the core, so a long time is taken again.
    for (let count = 0; count < 3 && least > LINE_LIMIT; count++) {
      const facts = make?.()
      if (facts !== undefined)
        this.#given.push({ facts, before: copyOf(facts), where: this.#findings.where })
      const measure = startMeasuring()
      this.write(listener, level, message, facts)
      least = Math.min(least, measure())
    }
    const text = `${level} took ${Math.round(least)} ms`
    this.#findings.check(least <= LINE_LIMIT, 'time', text)
  }

  /** Writes all messages and all kinds of facts at each level. */
  writeAll(listener: Log, present: readonly LevelName[]): void {
    for (const level of present) {
      for (const [index, message] of messages.entries()) {
        this.#findings.where = `message ${index}, without facts`
        this.#try(listener, level, message, undefined)
        this.#findings.where = `message ${index}, with facts`
        this.#try(listener, level, message, factsOf['plain facts'])
      }
      for (const [name, make] of Object.entries(factsOf)) {
        this.#findings.where = name
        this.#try(listener, level, 'a line with facts', make)
      }
    }
  }

  /** Measures the milliseconds of a line, in short runs at all levels. */
  measure(listener: Log, present: readonly LevelName[]): number {
    this.#findings.where = 'many lines'
    const facts = { operation: 'getLatestReport', originID: '001', attempt: 1 }
    let best = Number.POSITIVE_INFINITY
    for (let batch = 0; batch < BATCHES; batch++) {
      const measure = startMeasuring()
      for (let count = 0; count < BATCH; count++) {
        const level = present[count % present.length] as LevelName
        this.write(listener, level, `attempt ${count} of getLatestReport failed`, facts)
      }
      best = Math.min(best, measure() / BATCH)
    }
    return best
  }

  /** Waits for the promises of the logger, and compares the facts with what they were. */
  async finish(): Promise<void> {
    await outcomeOf(() => Promise.all(this.#promises), END_LIMIT)
    for (const { facts, before, where } of this.#given) {
      const difference = findDifference(before, copyOf(facts), '')
      this.#findings.where = where
      this.#findings.check(difference === undefined, 'argument', `of the facts, ${difference}`)
    }
  }
}

/**
 * Checks the rules of a logger: an object for the option `logger` of `logging`. It gives the logger
 * some thousand lines, so let the logger write to a place where they do no harm.
 *
 * Rejects with a ConformanceError that names each broken rule. Works under every test runner.
 *
 * @example
 * ```ts
 * test('my logger keeps the rules', () => testLogger(myLogger(stream)))
 * ```
 */
export async function testLogger(
  logger: Logger,
  options?: LoggerTestOptions,
): Promise<LoggerTestResult> {
  const { linesPerSecond } = readOptions('testLogger', options, schema)
  const findings = new Findings('logger')
  findings.where = 'the logger'
  const test = new LoggerTest(logger, findings)
  const listener = test.listen()
  const present = levels.filter(level => listener[level] !== undefined)
  if (present.length === 0) findings.add('shape', `there is no logger, but ${show(logger)}`)
  findings.finish()
  const timers = new TimerWatch()
  let msPerLine: number
  try {
    test.writeAll(listener, present)
    msPerLine = test.measure(listener, present)
    await test.finish()
    const rate = Math.floor(1000 / msPerLine)
    findings.where = 'many lines'
    findings.check(rate >= linesPerSecond, 'rate', `it took ${rate} lines in a second`)
    findings.where = 'the end'
    for (const origin of await timers.leftAfter(END_LIMIT))
      findings.add('timers', `a timer still runs: ${origin}`)
  } finally {
    timers.end()
  }
  findings.finish()
  return { levels: present, lines: test.lines, costPerLine: 1000 * msPerLine }
}
