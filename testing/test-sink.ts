import {
  type Checked,
  checkBoolean,
  checkFunction,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../core/options.js'
import type { Candle } from '../plugins/candles/index.js'
import { allDecoders } from '../plugins/decoders/index.js'
import type { SinkBatch, SinkPosition, SinkRefusal, SinkStore } from '../plugins/sink/index.js'
import { createDecoderTable } from '../report/decoder.js'
import { type Report, toReport } from '../report/report.js'
import { Findings, Stop } from './faults.js'
import { outcomeOf, show } from './probe.js'
import { sampleReport } from './reports.js'

/** A report as `read` found it in the store. */
export interface StoredReport {
  /** In lower case. */
  readonly feedID: string
  /** In the feed's unit. */
  readonly observationsTimestamp: number
  /** The field `price`, with 18 decimals as an exact integer: `-1500000000000000000n` is -1.5. */
  readonly price: bigint
}

/** A candle as `readCandles` found it in the store. */
export interface StoredCandle {
  /** In lower case. */
  readonly feedID: string
  /** In the feed's unit. */
  readonly start: number
  /** With 18 decimals, as an exact integer. */
  readonly close: bigint
  /** How many reports the candle is made of. */
  readonly revision: number
}

/** Options of `testSink`. */
export interface SinkTestOptions {
  /**
   * Reads all reports of version 3 back, in the order of the store if it has one. Use the store's
   * own means, such as SQL, and no float.
   */
  readonly read: () => Promise<readonly StoredReport[]>
  /** Reads all candles back. @default candles are written, and not read */
  readonly readCandles?: () => Promise<readonly StoredCandle[]>
  /**
   * True for a store that may have a report twice when its answer was lost, such as a queue.
   * @default false
   */
  readonly mayRepeat?: boolean
  /** True for a store that can't hold all of int192, and refuses what it can't. @default false */
  readonly mayRefuse?: boolean
}

/** What `testSink` found out about a store that broke no rule. */
export interface SinkTestResult {
  /** Whether the store keeps positions. */
  readonly hasPosition: boolean
  /** How many reports the store refused. */
  readonly refused: number
}

const schema = {
  read: checkFunction<SinkTestOptions['read']>,
  readCandles: optional(checkFunction<NonNullable<SinkTestOptions['readCandles']>>),
  mayRepeat: withDefault(false, checkBoolean),
  mayRefuse: withDefault(false, checkBoolean),
} satisfies Schema<SinkTestOptions>

type Settings = Checked<typeof schema>

/** Milliseconds that a call of the store may take. */
const PATIENCE = 20_000
/** How many reports the largest batch has. */
const MOST = 5000

const table = createDecoderTable(allDecoders)
const FIRST = 1_700_000_000
const e18 = 10n ** 18n
const widest = 2n ** 191n
/** Usual prices, and prices at the ends of what a report, a DECIMAL(38,18) and a double hold. */
const prices: readonly bigint[] = [
  3_214_581_234_567_890_123_456n,
  -37_630_000_000_000_000_001n,
  96_104_117_000_000_000_000_001n,
  0n,
  1n,
  -1n,
  2n ** 53n + 1n,
  10n ** 38n - 1n,
  1n - 10n ** 38n,
  10n ** 38n,
  -(10n ** 38n),
  widest - 1n,
  -widest,
]

const idOf = (index: number): string => `0x0003${'7e'.repeat(28)}${String(index).padStart(4, '0')}`

function reportOf(index: number, second: number, price: bigint): Report {
  const sample = sampleReport({
    feedID: idOf(index),
    observationsTimestamp: FIRST + second,
    validFromTimestamp: FIRST + second,
    values: [price, price - e18, price + e18].map(each => (isWide(each) ? price : each)),
  })
  return toReport(sample, 'wss://127.0.0.1#001', table, 'live')
}

function isWide(value: bigint): boolean {
  return value >= widest || value < -widest
}

function candleOf(index: number, close: bigint, revision: number): Candle {
  const start = FIRST - (FIRST % 60)
  const isComplete = revision === 60
  return Object.freeze({
    feedID: idOf(index),
    interval: '1m',
    start,
    end: start + 59,
    open: close,
    high: close,
    low: close,
    close,
    twap: close,
    count: revision,
    complete: isComplete,
    missing: isComplete ? [] : [{ from: start + revision, to: start + 59 }],
    signedLater: 0,
    revision,
  })
}

/** A test of one store. */
class SinkTest {
  hasPosition = false
  refused = 0
  readonly #open: () => SinkStore | Promise<SinkStore>
  readonly #findings: Findings
  readonly #settings: Settings
  /** What the store has to hold: prices by feed and time. */
  readonly #written = new Map<string, bigint>()

  constructor(open: () => SinkStore | Promise<SinkStore>, findings: Findings, settings: Settings) {
    this.#open = open
    this.#findings = findings
    this.#settings = settings
  }

  async run(): Promise<void> {
    await this.#part('a new store', store => this.#testFirst(store))
    await this.#part('prices', store => this.#testPrices(store))
    await this.#part('a late report', store => this.#testLate(store))
    await this.#part('a batch that comes again', store => this.#testAgain(store))
    await this.#part('a large batch', store => this.#testLarge(store))
    await this.#part('candles', store => this.#testCandles(store))
    await this.#part('positions', store => this.#testPositions(store))
    await this.#part('a store that was closed', async store => {
      await this.#expectRows('kept', 'after the store was closed and opened again')
      if (this.hasPosition) await this.#expectPosition(store, later, 'position-kept')
    })
  }

  /** Runs a part of the test with an opened store, and closes the store. */
  async #part(where: string, work: (store: SinkStore) => Promise<void>): Promise<void> {
    this.#findings.where = where
    const store = await this.#open()
    const { name, open, write, position, close } = (store ?? {}) as Partial<SinkStore>
    const areFunctions = [open, write, close].every(each => typeof each === 'function')
    const isShaped = areFunctions && ['undefined', 'function'].includes(typeof position)
    if (!isShaped || typeof name !== 'string' || name === '')
      this.#stop(
        'shape',
        'name must be a text, open, write and close functions, position, too, if it is there',
      )
    this.hasPosition = position !== undefined
    const { signal } = new AbortController()
    try {
      await this.#resolved('open', 'opens', () => store.open({ log: {}, signal }))
      await work(store)
    } catch (thrown) {
      if (!(thrown instanceof Stop)) throw thrown
    } finally {
      await this.#resolved('close', 'closes', () => store.close()).catch(() => undefined)
    }
  }

  #stop(rule: string, message: string): never {
    this.#findings.stop(rule, message)
  }

  async #resolved<Value>(call: string, rule: string, work: () => Promise<Value>): Promise<Value> {
    return this.#findings.valueOf(await outcomeOf(work, PATIENCE), rule, call)
  }

  /** Writes a batch, and takes what it has to hold afterwards into account. */
  async #write(store: SinkStore, batch: Partial<SinkBatch>): Promise<void> {
    const { reports = [] } = batch
    const receivedAt = reports.map(() => Date.now())
    const whole = { reports: [], candles: [], position: undefined, receivedAt, ...batch }
    const answer = await this.#resolved('write', 'writes', () => store.write(whole))
    if (!Array.isArray(answer))
      this.#stop('refusals', `write resolved with ${show(answer)}, and no list of refusals`)
    for (const report of whole.reports)
      this.#written.set(keyOf(report), (report.decoded as { readonly price: bigint }).price)
    for (const refusal of answer as readonly SinkRefusal[]) this.#checkRefusal(whole, refusal)
  }

  #checkRefusal({ reports }: SinkBatch, refusal: SinkRefusal): void {
    const { report, reason } = refusal ?? {}
    if (!reports.includes(report) || typeof reason !== 'string' || reason === '')
      this.#stop(
        'refusals',
        `a refusal must have a report of the batch and a reason: ${show(refusal)}`,
      )
    const price = this.#written.get(keyOf(report)) ?? 0n
    const isOrdinary = price > -(2n ** 80n) && price < 2n ** 80n
    if (isOrdinary || !this.#settings.mayRefuse)
      this.#findings.add('refuses', `a report with the price ${price} was refused: ${reason}`)
    this.#written.delete(keyOf(report))
    this.refused++
  }

  async #testFirst(store: SinkStore): Promise<void> {
    if (this.hasPosition) await this.#expectPosition(store, {}, 'position-empty')
    await this.#write(store, {})
    await this.#expectRows('rows', 'after an empty batch')
  }

  async #testPrices(store: SinkStore): Promise<void> {
    const reports = prices.map((price, index) => reportOf(1, 100 + index, price))
    await this.#write(store, { reports })
    await this.#expectRows('exact', 'after prices of all sizes')
  }

  /** A store that takes its newest time for its position leaves out what comes late. */
  async #testLate(store: SinkStore): Promise<void> {
    await this.#write(store, { reports: [reportOf(2, 500, e18), reportOf(2, 502, e18)] })
    await this.#write(store, { reports: [reportOf(2, 501, 2n * e18), reportOf(2, 90, 3n * e18)] })
    await this.#expectRows('late', 'after reports that were older than stored ones')
  }

  /** The answer to a write may be lost. Then the batch comes again, and with it what comes next. */
  async #testAgain(store: SinkStore): Promise<void> {
    const reports = [600, 601, 602].map(second => reportOf(3, second, BigInt(second) * e18))
    await this.#write(store, { reports })
    await this.#write(store, { reports })
    await this.#write(store, { reports: [...reports.slice(1), reportOf(3, 603, e18)] })
    await this.#write(store, { reports: [reportOf(4, 600, e18), reportOf(4, 600, e18)] })
    await this.#expectRows('once', 'after a batch that came twice')
  }

  async #testLarge(store: SinkStore): Promise<void> {
    const reports = Array.from({ length: MOST }, (_, index) =>
      reportOf(10 + (index % 50), 1000 + Math.floor(index / 50), BigInt(index - MOST / 2) * e18),
    )
    await this.#write(store, { reports })
    await this.#expectRows('whole', `after a batch of ${MOST} reports`)
  }

  async #testCandles(store: SinkStore): Promise<void> {
    const { readCandles } = this.#settings
    const [first, second] = [candleOf(1, 5n * e18, 58), candleOf(1, 7n * e18, 60)]
    await this.#write(store, { candles: [first, candleOf(2, -e18, 60)] })
    await this.#write(store, { candles: [second] })
    // A process that begins anew may issue an older state of the candle.
    await this.#write(store, { candles: [first] })
    if (readCandles === undefined) return
    const found = await this.#resolved('readCandles', 'candles', readCandles)
    const newest = new Map<string, StoredCandle>()
    for (const candle of found) {
      const before = newest.get(candle.feedID)
      if (before !== undefined && !this.#settings.mayRepeat)
        this.#findings.add('candles', `there are two candles of feed ${candle.feedID}`)
      if (before === undefined || before.revision < candle.revision)
        newest.set(candle.feedID, candle)
    }
    for (const expected of [second, candleOf(2, -e18, 60)]) {
      const { close, revision, start } = newest.get(expected.feedID) ?? {}
      const isRight =
        close === expected.close && revision === expected.revision && start === expected.start
      if (!isRight)
        this.#findings.add(
          'candles',
          `the candle of feed ${expected.feedID} must have revision ${expected.revision} and close at ${expected.close}, not ${show(revision)} and ${show(close)}`,
        )
    }
  }

  async #testPositions(store: SinkStore): Promise<void> {
    if (!this.hasPosition) return
    const reports = [reportOf(1, 700, e18)]
    await this.#write(store, { reports, position: { [idOf(1)]: FIRST + 700, [idOf(2)]: FIRST } })
    await this.#expectPosition(
      store,
      { [idOf(1)]: FIRST + 700, [idOf(2)]: FIRST },
      'position-written',
    )
    await this.#write(store, { position: later })
    await this.#expectPosition(store, later, 'position-written')
    // A batch without a position leaves it as it is.
    await this.#write(store, { reports: [reportOf(1, 701, e18)] })
    await this.#expectPosition(store, later, 'position-written')
    await this.#expectRows('rows', 'after positions were written')
  }

  async #expectPosition(store: SinkStore, expected: SinkPosition, rule: string): Promise<void> {
    const found = await this.#resolved(
      'position',
      'position',
      async (): Promise<SinkPosition> => (await store.position?.()) ?? {},
    )
    for (const feedID of new Set([...Object.keys(expected), ...Object.keys(found)]))
      if (found[feedID] !== expected[feedID])
        this.#stop(
          rule,
          `the position of feed ${feedID} must be ${show(expected[feedID])}, not ${show(found[feedID])}`,
        )
  }

  /** Compares the rows of the store with what was written. */
  async #expectRows(rule: string, when: string): Promise<void> {
    const rows = await this.#resolved('read', 'read', this.#settings.read)
    const seen = new Set<string>()
    for (const row of rows) {
      const key = keyOf(row)
      const price = this.#written.get(key)
      if (price === undefined) this.#stop('rows', `${when}, there is a row too many: ${key}`)
      if (seen.has(key) && !this.#settings.mayRepeat)
        this.#stop('once', `${when}, there are two rows of ${key}`)
      if (typeof row.price !== 'bigint' || row.price !== price)
        this.#stop('exact', `${when}, the price of ${key} must be ${price}, not ${show(row.price)}`)
      seen.add(key)
    }
    const missing = [...this.#written.keys()].filter(key => !seen.has(key))
    if (missing.length > 0)
      this.#stop(
        rule,
        `${when}, ${missing.length} of ${this.#written.size} rows are missing: ${missing[0]}`,
      )
  }
}

/** A feed of before may move back: a report came late. */
const later: SinkPosition = { [idOf(1)]: FIRST + 650, [idOf(2)]: FIRST + 1 }

function keyOf({
  feedID,
  observationsTimestamp,
}: Pick<Report, 'feedID' | 'observationsTimestamp'>): string {
  return `${feedID} ${observationsTimestamp}`
}

/**
 * Checks the rules of a store of a sink. `open` makes a store of one and the same place each time,
 * which is empty at first.
 *
 * Rejects with a ConformanceError that names each broken rule. Works under every test runner.
 *
 * @example
 * ```ts
 * test('my store keeps the rules', () =>
 *   testSink(() => myStore(url), { read: () => selectAll(url) }))
 * ```
 */
export async function testSink(
  open: () => SinkStore | Promise<SinkStore>,
  options: SinkTestOptions,
): Promise<SinkTestResult> {
  checkFunction('open', open)
  const settings = readOptions('testSink', options, schema)
  const findings = new Findings('store of a sink')
  const test = new SinkTest(open, findings, settings)
  try {
    await test.run()
  } catch (thrown) {
    if (!(thrown instanceof Stop)) throw thrown
  }
  findings.finish()
  const { hasPosition, refused } = test
  return { hasPosition, refused }
}
