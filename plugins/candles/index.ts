import type { EventNames, Plugin, Stage } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import { asError, ValidationError } from '../../core/errors.js'
import {
  type Checked,
  MAX_TIMER,
  number,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import type { ClientScope } from '../../core/scope.js'
import {
  type Candle,
  type CandleEvents,
  type CandleInterval,
  candlesKey,
  intervalSeconds,
} from '../../report/candle.js'
import { feedResolution, isFeedID, parseFeedID } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import { reportVerifier } from '../../report/verifier.js'
import { CandleBuilder, type CandleOptions, candleSchema, type PricedReport } from './builder.js'

export type { Candle, CandleEvents, CandleInterval, CandleRange } from '../../report/candle.js'
export type { CandleOptions, PricedReport } from './builder.js'

/** Options of `candles`. */
export interface CandlesOptions extends CandleOptions {
  /**
   * Milliseconds after the end of an interval after which its candle is issued even if reports are
   * missing. @default 5000
   */
  readonly closeAfter?: number
  /**
   * How far back the beginning of an interval is fetched when a stream starts in the middle of it,
   * in milliseconds. Candles of intervals that began earlier miss their beginning. With 0 nothing
   * is fetched. @default 3600000
   */
  readonly warmUp?: number
}

const schema = {
  ...candleSchema,
  closeAfter: withDefault(5000, number({ min: 0, max: MAX_TIMER })),
  warmUp: withDefault(3_600_000, number({ min: 0 })),
} satisfies Schema<CandlesOptions>

/** Milliseconds between two looks for candles that have ended. */
const LOOK = 1000
/** Reports of one page of the beginning of an interval. */
const PAGE = 100
/** Streams are paused while a loop has so many candles to take. */
const MOST_QUEUED = 4096

/**
 * Makes candles of the reports of streams. A candle is issued once reports hold every moment of its
 * interval: then it is `complete`. If reports are missing, it is issued `closeAfter` milliseconds
 * after its end, says what it misses, and is issued again with a higher `revision` when a report
 * comes late.
 *
 * It stands above `continuity`, `dedup` and `verify`.
 *
 * @example
 * ```ts
 * const bars = candles({ intervals: ['1m', '1h'] })
 * const client = createClient({ endpoint, wsEndpoint, plugins: [bars, ...defaultPreset(keys)] })
 * const stream = client.createStream(feeds)
 * stream.on('candle', candle => console.log(candle.interval, candle.close))
 * ```
 */
export function candles(options: CandlesOptions): Candles {
  return new CandlesPlugin(readOptions('candles', options, schema))
}

/** The plugin of `candles`. */
export interface Candles extends Plugin<never, CandleEvents> {
  /** The candle of a feed that was issued last; undefined before the first. */
  of(feedID: string, interval: CandleInterval): Candle | undefined
  /**
   * Iterates the candles of all streams of the client from now on. Streams are paused while 4096
   * candles wait. The loop ends with the client.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Candle>
}

/**
 * Makes candles of any reports: of a history, a recording or a database. Reports may come in any
 * order and more than once. An iterable whose windows overlap should be in the order of time, since
 * only a feed's last 128 candles can change; a list is sorted. A candle is issued as soon as it is
 * complete, and otherwise at the end.
 *
 * @example
 * ```ts
 * for await (const candle of candlesOf(client.reports(feedID, { from }), { intervals: ['1m'] }))
 *   console.log(candle.start, candle.close, candle.complete)
 * ```
 */
export async function* candlesOf(
  reports: AsyncIterable<PricedReport> | Iterable<PricedReport>,
  options: CandleOptions,
): AsyncGenerator<Candle, void, undefined> {
  const issued: Candle[] = []
  const builder = new CandleBuilder(
    readOptions('candlesOf', options, candleSchema),
    candle => issued.push(candle),
    (feedID, rule) => {
      throw new ValidationError(`feed ${feedID} has no candles: ${rule}`)
    },
  )
  let index = 0
  for await (const report of Array.isArray(reports) ? inTime(reports) : reports) {
    checkReport(index++, report)
    builder.add(report)
    yield* issued.splice(0)
  }
  builder.finish()
  yield* issued
}

/** A list in the order of time, so that reports whose windows overlap come together. */
function inTime(reports: readonly PricedReport[]): readonly PricedReport[] {
  for (const [index, report] of reports.entries()) checkReport(index, report)
  return [...reports].sort((one, other) => one.observationsTimestamp - other.observationsTimestamp)
}

/** A report may come from a database, whose drivers have numbers of several kinds. */
function checkReport(index: number, report: PricedReport): void {
  const { feedID, validFromTimestamp: from, observationsTimestamp: to } = report
  const isRight = Number.isSafeInteger(from) && Number.isSafeInteger(to) && from >= 0 && to >= from
  if (isRight && isFeedID(feedID)) return
  const rule = isRight
    ? 'feedID must be the id of a feed'
    : 'validFromTimestamp and observationsTimestamp must be whole numbers, in ascending order'
  throw new ValidationError(`reports[${index}]: ${rule}`)
}

/** Its own methods stand on the prototype: a plugin has no members but hooks. */
class CandlesPlugin implements Candles {
  readonly name = 'candles'
  readonly events: EventNames<CandleEvents> = ['candle']
  readonly report: Stage
  readonly #streams = new Set<CandleStream>()
  readonly #loops = new Set<CandleLoop>()

  constructor(settings: Checked<typeof schema>) {
    this.report = (next, scope) => {
      if (scope.kind === 'request') return next
      const stream = new CandleStream(scope, settings, this.#issue)
      this.#streams.add(stream)
      scope.defer(() => this.#streams.delete(stream))
      const { add } = stream
      return report => {
        add(report)
        next(report)
      }
    }
  }

  readonly setup = (scope: ClientScope): void => {
    scope.place({ below: ['whole', 'unique', 'verified'], because: 'gets what you get' })
    if (scope.find(candlesKey) === undefined) scope.provide(candlesKey, true)
    scope.defer(() => {
      for (const loop of [...this.#loops]) loop.end()
    })
  }

  of(feedID: string, interval: CandleInterval): Candle | undefined {
    const id = parseFeedID(feedID)
    let newest: Candle | undefined
    for (const stream of this.#streams) {
      const candle = stream.lastOf(id, interval)
      if (candle !== undefined && !(candle.start < (newest?.start ?? 0))) newest = candle
    }
    return newest
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Candle> {
    const loop = new CandleLoop(
      () => Array.from(this.#streams, each => each.pause()),
      () => this.#loops.delete(loop),
    )
    this.#loops.add(loop)
    return loop
  }

  readonly #issue = (candle: Candle): void => {
    for (const loop of this.#loops) loop.push(candle)
  }
}

/** The candles of one stream. */
class CandleStream {
  readonly add: (report: Report) => void
  readonly #scope: StreamScope
  readonly #settings: Checked<typeof schema>
  readonly #builder: CandleBuilder
  /** The feeds whose beginning is not fetched yet. */
  readonly #cold = new Map<string, number>()
  #isWarming = false
  /** Cancels the timer. */
  #cancel: () => void

  constructor(
    scope: StreamScope,
    settings: Checked<typeof schema>,
    issue: (candle: Candle) => void,
  ) {
    this.#scope = scope
    this.#settings = settings
    this.#builder = new CandleBuilder(
      settings,
      candle => {
        scope.events.emit<CandleEvents>('candle', candle)
        issue(candle)
      },
      (feedID, rule) => scope.log.warn?.(`feed ${feedID} has no candles: ${rule}`),
      settings.warmUp === 0 ? undefined : report => this.#begin(report),
    )
    this.add = this.#builder.add
    this.#cancel = scope.client.timing.after(LOOK, this.#look)
    scope.defer(() => this.#cancel())
    scope.defer(
      scope.events.on('status', status => {
        if (status.type === 'unsubscribed')
          for (const feedID of status.feedIDs) this.#builder.forget(feedID)
      }),
    )
  }

  lastOf(feedID: string, interval: CandleInterval): Candle | undefined {
    return this.#builder.lastOf(feedID, interval)
  }

  pause(): { resume(): void } {
    return this.#scope.flow.pause()
  }

  readonly #look = (): void => {
    this.#builder.closeBefore(this.#scope.client.now(), this.#settings.closeAfter)
    this.#cancel = this.#scope.client.timing.after(LOOK, this.#look)
  }

  /** A feed begins: fetches what its open intervals lack. */
  #begin({ feedID, validFromTimestamp: first }: PricedReport): void {
    const resumed = this.#scope.cursors.get(feedID)
    this.#cold.set(feedID, resumed === undefined ? first : Math.min(first, resumed + 1))
    if (!this.#isWarming) void this.#warmUp()
  }

  /** Fetches one feed after the other. */
  async #warmUp(): Promise<void> {
    const { log, signal } = this.#scope
    this.#isWarming = true
    for (const [feedID, before] of this.#cold) {
      this.#cold.delete(feedID)
      try {
        await this.#fetch(feedID, before)
      } catch (thrown) {
        if (signal.aborted) return
        log.warn?.(
          `the first candles of feed ${feedID} miss their beginning: ${asError(thrown).message}`,
        )
      }
    }
    this.#isWarming = false
  }

  async #fetch(feedID: string, before: number): Promise<void> {
    const { client, signal } = this.#scope
    const { intervals, warmUp } = this.#settings
    const second = feedResolution(feedID) === 's' ? 1 : 1000
    const begins = intervals
      .map(interval => before - (before % (intervalSeconds[interval] * second)))
      .filter(start => ((before - start) / second) * 1000 <= warmUp)
    const isVerified = client.find(reportVerifier) !== undefined
    for (let time = Math.min(...begins, before); time < before; ) {
      const page = await client.fetchPage(feedID, time, PAGE, signal)
      for (const report of page) {
        if (report.observationsTimestamp >= before) return
        if (isVerified) await report.verify()
        this.#builder.add(report)
      }
      const last = page.at(-1)
      if (last === undefined || last.observationsTimestamp < time) return
      time = last.observationsTimestamp + 1
    }
  }
}

/** A loop over candles. */
class CandleLoop implements AsyncIterableIterator<Candle> {
  readonly #candles: Candle[] = []
  readonly #waiting: ((result: IteratorResult<Candle, undefined>) => void)[] = []
  readonly #pauseStreams: () => { resume(): void }[]
  readonly #ended: () => void
  #pauses: { resume(): void }[] = []
  #isOver = false

  constructor(pauseStreams: () => { resume(): void }[], ended: () => void) {
    this.#pauseStreams = pauseStreams
    this.#ended = ended
  }

  push(candle: Candle): void {
    const waiting = this.#waiting.shift()
    if (waiting !== undefined) {
      waiting({ done: false, value: candle })
      return
    }
    this.#candles.push(candle)
    if (this.#candles.length >= MOST_QUEUED && this.#pauses.length === 0)
      this.#pauses = this.#pauseStreams()
  }

  end(): void {
    this.#isOver = true
    this.#ended()
    this.#resume()
    for (const waiting of this.#waiting.splice(0)) waiting({ done: true, value: undefined })
  }

  async next(): Promise<IteratorResult<Candle, undefined>> {
    const value = this.#candles.shift()
    if (this.#candles.length <= MOST_QUEUED >> 1) this.#resume()
    if (value !== undefined) return { done: false, value }
    if (this.#isOver) return { done: true, value: undefined }
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  async return(): Promise<IteratorResult<Candle, undefined>> {
    this.#candles.length = 0
    this.end()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #resume(): void {
    for (const pause of this.#pauses.splice(0)) pause.resume()
  }
}
