import {
  type Checked,
  checkBoolean,
  number,
  oneOf,
  optional,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { Chain, type Numbering, type SignedReport } from './chain.js'
import { type EngineClock, nextTurn } from './clock.js'
import type { EngineContext } from './context.js'
import type { Feed, ReportFields } from './feeds.js'
import type { PublishedReport } from './ledger.js'
import { type Forgery, forgeries, RotatingNetwork, type SignerSet } from './network.js'
import { averageOf } from './twap.js'

/** The options for a report that is published by hand. */
export interface PublishOptions {
  /**
   * Whether subscribers get it. `false` simulates a report that the stream has missed.
   * @default true
   */
  readonly streamed?: boolean
  /**
   * Whether REST answers with it. `false` simulates a report that the service has lost.
   * @default true
   */
  readonly stored?: boolean
  /** Milliseconds after which REST answers with it, if `stored` is true. @default 0 */
  readonly storedAfterMs?: number
  /** The signers that sign it: one of the engine's `networks`. @default the current ones */
  readonly network?: SignerSet
  /** Forges the report, for the stream and for REST. @default no forgery */
  readonly forged?: Forgery
}

const schema = {
  streamed: withDefault(true, checkBoolean),
  stored: withDefault(true, checkBoolean),
  storedAfterMs: withDefault(0, number({ min: 0 })),
  network: unchecked<SignerSet | undefined>,
  forged: optional(oneOf(...forgeries)),
} satisfies Schema<PublishOptions>

type Publication = Checked<typeof schema>

/** Work that a schedule repeats. */
interface Task {
  /** Milliseconds between two runs. If it is 0, the task never runs. */
  readonly intervalMs: number
  /**
   * Runs the task. Returns the ms to wait before an extra run. 0, or a time not shorter than the
   * interval, means no extra run.
   */
  readonly run: () => number
}

/**
 * Creates a schedule that is not started yet. Tasks with equal intervals are spread over the
 * interval, so that they do not all run at once.
 */
function createSchedule(clock: EngineClock, tasks: readonly Task[]) {
  const cancels = new Set<() => void>()
  /** The timers that the schedule was started with; undefined while it is stopped. */
  let timers: unknown

  function runAfter(ms: number, run: () => void): void {
    const cancel = clock.after(ms, function runThen() {
      cancels.delete(cancel)
      run()
    })
    cancels.add(cancel)
  }

  function runOnce(task: Task): void {
    const waitMs = task.run()
    if (waitMs > 0 && waitMs < task.intervalMs) runAfter(waitMs, () => runOnce(task))
  }

  function repeat(task: Task): void {
    runAfter(task.intervalMs, () => repeat(task))
    runOnce(task)
  }

  function stop(): void {
    timers = undefined
    for (const cancel of cancels) cancel()
    cancels.clear()
  }

  return {
    /** Starts the schedule. If it runs on timers that were replaced since, it starts afresh. */
    start(): void {
      if (timers === clock.timers) return
      stop()
      timers = clock.timers
      for (const intervalMs of new Set(tasks.map(task => task.intervalMs))) {
        const group = tasks.filter(task => task.intervalMs === intervalMs && intervalMs > 0)
        for (const [i, task] of group.entries())
          runAfter((intervalMs * (i + 1)) / group.length, () => repeat(task))
      }
    },
    stop,
  }
}

/** Makes, signs and publishes the reports of an engine. */
export class Publisher {
  readonly network: RotatingNetwork
  readonly #context: EngineContext
  readonly #recording: readonly SignedReport[] | undefined
  readonly #stream: (report: PublishedReport) => void
  readonly #chains = new Map<string, Chain>()
  readonly #schedule: ReturnType<typeof createSchedule>
  /** The feeds of averages, by the feed whose price they average. */
  readonly #averages = new Map<string, Feed[]>()
  /** When each feed of averages publishes next by itself, in ms. */
  readonly #averageDue = new Map<string, number>()
  readonly #numbering: Numbering = { last: 0 }
  /** Cancels the reports that are signed later. */
  readonly #later = new Set<() => void>()
  #replayed = 0

  /**
   * Replays the recording if there is one; otherwise, generates reports. `stream` sends a report to
   * subscribers.
   */
  constructor(
    context: EngineContext,
    recording: readonly SignedReport[] | undefined,
    stream: (report: PublishedReport) => void,
  ) {
    const { curve, settings, feeds } = context
    this.network = new RotatingNetwork(curve, settings)
    this.#context = context
    this.#recording = recording
    this.#stream = stream
    for (const feed of feeds.values())
      if (feed.twapOf !== undefined)
        this.#averages.set(feed.twapOf.feedID, [
          ...(this.#averages.get(feed.twapOf.feedID) ?? []),
          feed,
        ])
    this.#schedule = createSchedule(
      settings.clock,
      recording === undefined
        ? // Feeds of averages publish after the feeds whose price they average.
          [...feeds.values()].filter(isPriced).map(feed => this.#taskOf(feed))
        : [{ intervalMs: settings.intervalMs, run: () => this.#replay() }],
    )
  }

  publish(feedID: string, fields?: ReportFields, options?: PublishOptions): PublishedReport {
    const feed = this.#context.feeds.get(feedID.toLowerCase())
    if (feed === undefined) throw new ValidationError(`publish: there is no feed ${feedID}`)
    const publication = readOptions('publish', options, schema, 'publish: ')
    const now = this.#context.settings.clock.now()
    const values = feed.twapOf === undefined ? fields : this.#withAverage(feed, now, fields)
    const report = this.#add(
      this.#chainOf(feed).next(now, this.#sign(publication.network), values),
      now,
      publication,
    )
    if (report.streamed) this.#stream(report)
    return report
  }

  /** Publishes the next recorded report. Returns undefined if no report is left. */
  replayNext(): PublishedReport | undefined {
    const recorded = this.#recording?.[this.#replayed]
    if (recorded === undefined) return undefined
    this.#replayed++
    if (this.#replayed === this.#recording?.length) this.#schedule.stop()
    const report = this.#add(recorded, this.#context.settings.clock.now(), usual)
    this.#chains.get(report.feedID)?.follow(report)
    this.#stream(report)
    return report
  }

  /** Publishes a report of the archive, unless the stream of that day has missed it. */
  publishRecorded(report: PublishedReport): void {
    this.#context.ledger.add(report, true)
    if (report.streamed) this.#stream(report)
  }

  #replay(): number {
    this.replayNext()
    return 0
  }

  /**
   * Fills the ledger with the past reports that feeds have at the start, in the order in which the
   * network would have signed them.
   */
  async makeHistory(): Promise<void> {
    const { settings, feeds } = this.#context
    const start = settings.clock.now()
    const past = [...feeds.values()].flatMap(feed => {
      const stepMs = Math.max(feed.intervalMs || 1000, feed.resolution === 's' ? 1000 : 1)
      const times = Array.from(
        { length: settings.history },
        (_, index) => start - (settings.history - index) * stepMs,
      )
      if (times.length > 0) this.#chainOf(feed).lead(times)
      return times.map((at, index) => ({ feed, at, isLast: index === times.length - 1 }))
    })
    // An average needs the prices up to its time.
    const rank = (feed: Feed): number => (isPriced(feed) ? 0 : 1)
    past.sort((one, other) => one.at - other.at || rank(one.feed) - rank(other.feed))
    for (const [index, { feed, at, isLast }] of past.entries()) {
      if (index % AT_ONCE === AT_ONCE - 1) await nextTurn()
      const values = isPriced(feed) ? undefined : this.#average(feed, unitOf(feed, at))
      if (values === undefined && !isPriced(feed)) continue
      // The latest report has the price that a test has set, and the stream goes on from there.
      const chain = this.#chainOf(feed)
      if (isLast) chain.restart()
      const report = chain.next(at, this.#sign(), values, true)
      this.#add(report, at, { ...usual, streamed: false })
    }
  }

  /** Starts automatic publishing, if anything is left to publish. */
  start(): void {
    if (this.#recording === undefined || this.#replayed < this.#recording.length)
      this.#schedule.start()
  }

  stop(): void {
    this.#schedule.stop()
    for (const cancel of this.#later) cancel()
    this.#later.clear()
  }

  /** The average that a feed publishes at a time, if a report has a part in it. */
  #average({ twapOf }: Feed, time: number): { price: bigint } | undefined {
    const { feeds, ledger } = this.#context
    const source = twapOf && feeds.get(twapOf.feedID)
    const average = source && averageOf(ledger, source, time, twapOf)
    return average && { price: average.price }
  }

  /** The fields of an average that is published by hand. */
  #withAverage(feed: Feed, now: number, fields: ReportFields = {}): ReportFields {
    if (fields.price !== undefined) return fields
    const time = Number(fields.observationsTimestamp ?? unitOf(feed, now))
    const average = this.#average(feed, time)
    if (average !== undefined) return { ...fields, ...average }
    throw new ValidationError(
      `publish: ${feed.feedID} is an average, and the window that ends at ${time} has no report`,
    )
  }

  /**
   * Publishes the averages of a feed that are due after one of its reports. An average has the
   * time of that report, so that the window ends with it.
   */
  #publishAverages({ feedID, observationsTimestamp }: PublishedReport, sourceMs: number): void {
    const now = this.#context.settings.clock.now()
    for (const feed of this.#averages.get(feedID) ?? []) {
      const due = this.#averageDue.get(feed.feedID) ?? 0
      // Timers are not exact: a report that is a little early is the one that is due.
      if (feed.intervalMs === 0 || now < due - sourceMs / 2) continue
      this.#averageDue.set(feed.feedID, (now - due < feed.intervalMs ? due : now) + feed.intervalMs)
      const last = this.#context.ledger.latest(feed.feedID)?.observationsTimestamp ?? -1
      if (observationsTimestamp <= last) continue
      if (this.#average(feed, observationsTimestamp) !== undefined)
        this.publish(feed.feedID, { observationsTimestamp })
    }
  }

  #sign(signers: SignerSet | undefined = this.network.sets.at(-1)) {
    return (blob: string, seqNr: number) => this.network.sign(blob, seqNr, signers)
  }

  #chainOf(feed: Feed): Chain {
    const { ledger, settings } = this.#context
    const { feedID } = feed
    const chain =
      this.#chains.get(feedID) ??
      new Chain(feed, settings.seed, this.#numbering, ledger.latest(feedID))
    this.#chains.set(feedID, chain)
    return chain
  }

  #add(
    report: SignedReport,
    publishedAt: number,
    { streamed, stored, storedAfterMs, forged }: Publication,
  ): PublishedReport {
    const { feedID, validFromTimestamp, observationsTimestamp, seqNr } = report
    const forge = (how: Forgery) => this.#context.forge(report.fullReport, how)
    const forgery = forged && forge(forged)
    const published = Object.freeze({
      ...{ feedID, validFromTimestamp, observationsTimestamp, seqNr },
      get fullReport() {
        return forgery ?? report.fullReport
      },
      ...{ publishedAt, streamed, stored, storedAfterMs },
    })
    this.#context.ledger.add(published)
    this.#numbering.last = Math.max(this.#numbering.last, published.seqNr)
    return published
  }

  /**
   * The task that publishes a feed at its interval. Unless `runAhead` is set, it waits for the
   * clock instead of dating a report ahead of the clock.
   */
  #taskOf({ feedID, intervalMs }: Feed): Task {
    const { feeds, settings } = this.#context
    const { every, afterMs } = settings.historyBackfill
    let count = 0
    return {
      intervalMs,
      run: () => {
        const feed = feeds.get(feedID) as Feed
        const now = settings.clock.now()
        const waitMs = settings.runAhead ? 0 : this.#chainOf(feed).wait(now)
        if (waitMs > 0) return waitMs
        if (++count % every === 0) this.#signLater(feed, unitOf(feed, now), afterMs)
        else this.#publishAverages(this.publish(feedID), intervalMs)
        return 0
      },
    }
  }

  /**
   * Leaves out the report of a time, which the next report absorbs. The network signs it later,
   * with the sequence number that it has reached by then.
   */
  #signLater({ feedID }: Feed, time: number, afterMs: number): void {
    const cancel = this.#context.settings.clock.after(afterMs, () => {
      this.#later.delete(cancel)
      this.publish(feedID, { validFromTimestamp: time, observationsTimestamp: time })
    })
    this.#later.add(cancel)
  }
}

/** So many reports of the past are made before other work has its turn. */
const AT_ONCE = 64

/** True for a feed that is not the average of another. */
function isPriced(feed: Feed): boolean {
  return feed.twapOf === undefined
}

/** A time of the clock in the feed's unit. */
function unitOf({ resolution }: Feed, ms: number): number {
  return Math.floor(resolution === 's' ? ms / 1000 : ms)
}

/** The options of a report that is published automatically. */
const usual: Publication = readOptions('publish', {}, schema)
