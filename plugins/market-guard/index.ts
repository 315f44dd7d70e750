import type { EventNames, Plugin, Sink, Stage } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import { asError } from '../../core/errors.js'
import { MAX_TIMER } from '../../core/options.js'
import type { ClientScope } from '../../core/scope.js'
import { parseFeedID } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import { type CatalogueEntry, hoursOf } from './hours.js'
import {
  GRACE,
  isCalm,
  isTradableAlone,
  judge,
  MarketFeed,
  observe,
  type ReadFields,
} from './judgement.js'
import { type GuardSettings, type MarketGuardOptions, readSettings } from './policy.js'
import { type MarketReason, marketReasons } from './reasons.js'

export type { HoursModel } from './hours.js'
export type { MarketGuardOptions, MarketPolicy } from './policy.js'
export { type MarketReason, marketReasons, type ReasonFacts } from './reasons.js'

/** Whether a feed may be traded, and why. */
export interface MarketVerdict {
  /** The id of the feed, in lower case. */
  readonly feedID: string
  /** Whether the feed may be traded. */
  readonly tradable: boolean
  /** Whether to trade with care: with wider limits, or less. */
  readonly caution: boolean
  /** The reason, as a word. */
  readonly reason: MarketReason
  /** The reason in words, with the numbers that it has. */
  readonly text: string
  /** Since when the reason holds, in milliseconds of Unix time by the client's present. */
  readonly since: number
}

/** The events of `marketGuard`. */
export interface MarketEvents {
  /** The verdict on a feed has changed. */
  readonly market: MarketVerdict
}

/** The clock is read once in so many reports: that costs as much as the rest of the guard. */
const CLOCK_READS = 16
/** Less than so many milliseconds before the clock may change a verdict, each report reads it. */
const CLOCK_MARGIN = 10_000
/** The timer is not set anew for so few milliseconds. */
const TIMER_SLACK = 50
/** The reasons that stand as long as reports are calm and the clock does not change them. */
const lasting: ReadonlySet<MarketReason> = new Set([
  'always-open',
  'hours-unknown',
  'delayed',
  'retiring',
  'open',
])
/** Milliseconds between two requests for the catalogue, after an answer and after a failure. */
const CATALOGUE_INTERVAL = 3_600_000
const CATALOGUE_RETRY = 300_000

/**
 * Judges whether each feed of a stream may be traded, by its reports alone: the status of its
 * market, the age of its value, its price, its corporate actions.
 * docs/guides/market-guard.md lists the conditions. A change of a verdict is the
 * event `market`, and `of` returns the verdict of a feed.
 *
 * The guard stands first in a stack. It judges what `continuity`, `dedup` and `verify` pass on.
 *
 * @example
 * ```ts
 * const guard = marketGuard()
 * const client = createClient({ endpoint, wsEndpoint, plugins: [guard, ...defaultPreset(keys)] })
 * const { tradable, text } = guard.of(feedID)
 * ```
 */
export function marketGuard(options?: MarketGuardOptions): MarketGuard {
  return new Guard(readSettings(options))
}

/** The plugin of `marketGuard`. */
export interface MarketGuard extends Plugin<never, MarketEvents> {
  /**
   * The verdict on a feed at present. It is `no-report` for a feed of no open stream. If several
   * streams have the feed, the stream with the newest report counts.
   */
  of(feedID: string): MarketVerdict
  /**
   * Accepts the newest price of a feed after a `jump` or a `multiplier-changed`, in each open
   * stream. Call it once you have checked the price.
   */
  accept(feedID: string): void
}

/** Its own methods stand on the prototype: a plugin has no members but hooks. */
class Guard implements MarketGuard {
  readonly name = 'market-guard'
  readonly events: EventNames<MarketEvents> = ['market']
  readonly setup = (scope: ClientScope): void =>
    scope.place({ below: ['whole', 'unique', 'verified'], because: 'gets what you get' })
  readonly report: Stage
  readonly #streams = new Set<GuardedStream>()

  constructor(settings: GuardSettings) {
    this.report = (next, scope) => {
      if (scope.kind === 'request') return next
      const stream = new GuardedStream(scope, settings)
      this.#streams.add(stream)
      scope.defer(() => this.#streams.delete(stream))
      return stream.guard(next)
    }
  }

  of(feedID: string): MarketVerdict {
    const id = parseFeedID(feedID)
    let newest: GuardedStream | undefined
    for (const stream of this.#streams)
      if (newest === undefined || stream.timeOf(id) > newest.timeOf(id)) newest = stream
    return newest?.verdictOn(id) ?? verdictOf(id, 'no-report', marketReasons['no-report'].text, 0)
  }

  accept(feedID: string): void {
    const id = parseFeedID(feedID)
    for (const stream of this.#streams) stream.accept(id)
  }
}

/** A feed of a stream, with the verdict that was announced last. */
class GuardedFeed extends MarketFeed {
  /** The feed whose report came after that of this feed. */
  next: GuardedFeed | undefined
  /** A calm report, which is read once something asks for it. */
  pending: Report | undefined
  /** Up to this time, a calm report leaves the verdict as it is. */
  calmUntil: number = Number.NEGATIVE_INFINITY
  verdict: MarketVerdict = verdictOf(this.feedID, 'no-report', marketReasons['no-report'].text, 0)
}

/** The guard of one stream. */
class GuardedStream {
  readonly #scope: StreamScope
  readonly #settings: GuardSettings
  readonly #feeds = new Map<string, GuardedFeed>()
  /** The feeds of the stream in the catalogue. */
  readonly #entries = new Map<string, CatalogueEntry>()
  /** Why the hours of a feed are unknown. */
  #lack: string
  #catalogueAt = Number.NEGATIVE_INFINITY
  /** Cancels the timer. */
  #cancel: (() => void) | undefined
  /** When the timer fires, by the client's present. */
  #firesAt = Number.POSITIVE_INFINITY
  #last: GuardedFeed | undefined
  /** The present when it was last read, and how many reports may come before it is read again. */
  #now: number = Number.NEGATIVE_INFINITY
  #reads = 0

  constructor(scope: StreamScope, settings: GuardSettings) {
    this.#scope = scope
    this.#settings = settings
    this.#lack = settings.catalogue
      ? 'the catalogue has not answered'
      : 'the catalogue is not asked'
    if (!settings.catalogue) this.#catalogueAt = Number.POSITIVE_INFINITY
    scope.defer(() => this.#cancel?.())
    scope.defer(
      scope.events.on('status', status => {
        if (status.type === 'clock') this.#tick()
        else if (status.type === 'unsubscribed') this.#forget(status.feedIDs)
        else if (status.type === 'subscribed' && settings.catalogue) this.#tick(true)
        else if (status.type === 'connected') this.#tick()
      }),
    )
  }

  guard(next: Sink): Sink {
    const { cursors } = this.#scope
    const { drop } = this.#settings
    return report => {
      if (--this.#reads < 0) this.#readClock()
      const { feedID } = report
      // Feeds come in much the same order again and again.
      const guess = this.#last?.next
      const feed = guess?.feedID === feedID ? guess : this.#feedOf(feedID)
      this.#last = feed
      if (this.#isCalm(feed, report)) {
        feed.observed = report.observationsTimestamp
        feed.pending = report
        next(report)
      } else if (this.#judgeReport(feed, report, this.#readClock()) || !drop) next(report)
      else cursors.acknowledge(report)
    }
  }

  #readClock(): number {
    this.#reads = CLOCK_READS
    this.#now = this.#scope.client.now()
    return this.#now
  }

  #isCalm(feed: GuardedFeed, report: Report): boolean {
    const time = report.observationsTimestamp
    const mayBe = this.#now < feed.calmUntil && time > feed.observed
    if (!mayBe || feed.unit * time > this.#now + GRACE) return false
    try {
      return isCalm(feed, report.decoded as ReadFields)
    } catch {
      return false
    }
  }

  /** Reads the calm report that was left. */
  #catchUp(feed: GuardedFeed, now: number): void {
    const { pending } = feed
    if (pending === undefined) return
    feed.pending = undefined
    observe(feed, pending.decoded as ReadFields, now)
  }

  /** The time of a feed's newest report. */
  timeOf(feedID: string): number {
    return this.#feeds.get(feedID)?.observed ?? Number.NEGATIVE_INFINITY
  }

  verdictOn(feedID: string): MarketVerdict | undefined {
    const feed = this.#feeds.get(feedID)
    if (feed === undefined) return undefined
    const now = this.#scope.client.now()
    this.#catchUp(feed, now)
    const { until } = feed
    const reason = judge(feed, now)
    if (reason === feed.verdict.reason) return feed.verdict
    // The timer has not fired yet.
    feed.until = until
    return this.#describe(feed, reason, Math.min(now, until))
  }

  accept(feedID: string): void {
    const feed = this.#feeds.get(feedID)
    if (feed === undefined) return
    const now = this.#scope.client.now()
    this.#catchUp(feed, now)
    feed.accept()
    this.#judge(feed, now)
  }

  /** Judges a feed by a report. Returns whether this report is tradable. */
  #judgeReport(feed: GuardedFeed, report: Report, now: number): boolean {
    const time = report.observationsTimestamp
    const isNewest = time > feed.observed && feed.unit * time <= now + GRACE
    this.#catchUp(feed, now)
    if (isNewest) feed.observed = time
    try {
      const fields = report.decoded as ReadFields
      if (isNewest) observe(feed, fields, now)
      else if (this.#settings.drop && !isTradableAlone(feed, fields, now)) return false
    } catch {
      // The report itself throws again where it is read.
      if (!isNewest) return false
      feed.problem = 'undecodable'
    }
    this.#judge(feed, now)
    return feed.verdict.tradable
  }

  #judge(feed: GuardedFeed, now: number): void {
    this.#catchUp(feed, now)
    const { until } = feed
    const reason = judge(feed, now)
    const isLasting = lasting.has(reason) && feed.reportsBack === 0
    feed.calmUntil = isLasting ? feed.until - CLOCK_MARGIN : Number.NEGATIVE_INFINITY
    if (feed.until < this.#firesAt - TIMER_SLACK) this.#arm(feed.until, now)
    if (reason === feed.verdict.reason) return
    feed.verdict = this.#describe(feed, reason, Math.min(now, until))
    this.#scope.events.emit<MarketEvents>('market', feed.verdict)
  }

  #feedOf(feedID: string): GuardedFeed {
    const feed = this.#feeds.get(feedID) ?? this.#addFeed(feedID)
    if (this.#last !== undefined) this.#last.next = feed
    return feed
  }

  #addFeed(feedID: string): GuardedFeed {
    const feed = new GuardedFeed(feedID, this.#settings.policyOf(feedID), undefined)
    this.#feeds.set(feedID, feed)
    this.#look(feed)
    return feed
  }

  /** Takes over what the options and the catalogue say of a feed. */
  #look(feed: GuardedFeed): void {
    const entry = this.#entries.get(feed.feedID)
    feed.follow(this.#settings.hours[feed.feedID] ?? (entry && hoursOf(entry)))
    feed.retiringAt = entry?.expectedDecommissionAt?.getTime() ?? Number.POSITIVE_INFINITY
    feed.retiredAt = entry?.decommissionedAt?.getTime() ?? Number.POSITIVE_INFINITY
  }

  #forget(feedIDs: readonly string[]): void {
    this.#last = undefined
    for (const feed of this.#feeds.values()) feed.next = undefined
    for (const feedID of feedIDs) {
      this.#feeds.delete(feedID)
      this.#entries.delete(feedID)
    }
  }

  /** Judges all feeds by the clock, asks for the catalogue if it is due, and sets the timer. */
  readonly #tick = (isNew = false): void => {
    const now = this.#readClock()
    if (isNew || now >= this.#catalogueAt) void this.#askCatalogue(now)
    this.#cancel?.()
    this.#firesAt = Number.POSITIVE_INFINITY
    for (const feed of this.#feeds.values()) this.#judge(feed, now)
    if (this.#catalogueAt < this.#firesAt) this.#arm(this.#catalogueAt, now)
  }

  #arm(time: number, now: number): void {
    this.#cancel?.()
    if (this.#scope.signal.aborted) return
    this.#firesAt = time
    const delay = Math.min(MAX_TIMER, Math.max(1, Math.ceil(time - now)))
    this.#cancel = this.#scope.client.timing.after(delay, () => this.#tick())
  }

  async #askCatalogue(now: number): Promise<void> {
    const { client, feedIDs, log, signal } = this.#scope
    this.#catalogueAt = now + CATALOGUE_INTERVAL
    try {
      const feeds = await client.discover({ hidden: true, signal })
      this.#entries.clear()
      for (const feed of feeds)
        if (feedIDs.includes(feed.feedID)) this.#entries.set(feed.feedID, feed)
      this.#lack = 'the catalogue does not say them'
    } catch (thrown) {
      if (signal.aborted) return
      this.#catalogueAt = now + CATALOGUE_RETRY
      if (this.#entries.size === 0) this.#lack = 'the catalogue is unavailable'
      log.warn?.(`market-guard: the catalogue is unavailable: ${asError(thrown).message}`)
    }
    if (signal.aborted) return
    for (const feed of this.#feeds.values()) {
      this.#catchUp(feed, now)
      this.#look(feed)
    }
    this.#tick()
  }

  #describe(feed: GuardedFeed, reason: MarketReason, since: number): MarketVerdict {
    const { feedID, facts, model, version } = feed
    const parts = [marketReasons[reason].text]
    if (version === 11 && facts.status !== -1) {
      parts.push(`status ${facts.status}`)
      if (model === undefined) parts.push(`the hours of the feed are unknown: ${this.#lack}`)
    }
    if (reason === 'retiring' || reason === 'retired') {
      const at = reason === 'retired' ? feed.retiredAt : feed.retiringAt
      parts.push(new Date(at).toISOString())
    }
    const explained = this.#explain(feedID, since)
    if (explained !== undefined) parts.push(explained)
    return verdictOf(feedID, reason, parts.join('; '), since)
  }

  #explain(feedID: string, time: number): string | undefined {
    try {
      return this.#settings.calendar?.(feedID, time)
    } catch (thrown) {
      this.#scope.log.warn?.(`market-guard: the calendar threw: ${asError(thrown).message}`)
      return undefined
    }
  }
}

function verdictOf(
  feedID: string,
  reason: MarketReason,
  text: string,
  since: number,
): MarketVerdict {
  const { tradable, caution } = marketReasons[reason]
  return Object.freeze({ feedID, tradable, caution, reason, text, since })
}
