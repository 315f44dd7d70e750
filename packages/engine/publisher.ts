import { setImmediate as nextTick } from 'node:timers/promises'
import { checkNumber, checkOptions, type OptionNames, ValidationError } from 'sluice/core'
import { type Chain, createChain, type SignedReport } from './chain.js'
import type { EngineContext } from './context.js'
import type { Feed, ReportFields } from './feeds.js'
import type { Forge, Forgery } from './forge.js'
import type { PublishedReport } from './ledger.js'
import { createRotatingNetwork, type RotateOptions, type SignerSet } from './network.js'
import { createSchedule, type Task } from './schedule.js'

/** Where a report that is published by hand goes. */
export interface PublishOptions {
  /** Whether subscribers get it; false is a report that the stream has missed. @default true */
  readonly streamed?: boolean
  /** Whether REST answers with it; false is a report that the service has lost. @default true */
  readonly stored?: boolean
  /** Milliseconds after which REST answers with it, where it does. @default 0 */
  readonly storedAfterMs?: number
  /** The signers of it, one of the engine's `networks`. @default the current ones */
  readonly network?: SignerSet
  /** Forges it, for the stream and for REST. @default no forgery */
  readonly forged?: Forgery
}

const names: OptionNames<PublishOptions> = {
  streamed: true,
  stored: true,
  storedAfterMs: true,
  network: true,
  forged: true,
}

/** Makes, signs and publishes the reports of an engine. */
export interface Publisher {
  readonly publish: (
    feedID: string,
    fields?: ReportFields,
    options?: PublishOptions,
  ) => PublishedReport
  /** Publishes the next recorded report; undefined if there is none left. */
  readonly replayNext: () => PublishedReport | undefined
  readonly rotate: (to?: RotateOptions) => SignerSet
  /** The signers so far, the oldest set first. */
  readonly networks: readonly SignerSet[]
  /** Adds the reports that feeds have at the start to the ledger. */
  readonly makeHistory: () => Promise<void>
  /** Starts automatic publishing, if there is something to publish. */
  readonly start: () => void
  readonly stop: () => void
}

function toPublished(
  { fullReport, ...rest }: SignedReport,
  publishedAt: number,
  forge: Forge,
  { streamed = true, stored = true, storedAfterMs = 0, forged }: PublishOptions = {},
): PublishedReport {
  return Object.freeze({
    ...rest,
    fullReport: forged === undefined ? fullReport : forge(fullReport, forged),
    publishedAt,
    streamed,
    stored,
    storedAfterMs,
  })
}

/** A publisher that is not started. It replays the recording, or else makes reports; `stream` sends one to subscribers. */
export function createPublisher(
  { settings, feeds, curve, forge, ledger }: EngineContext,
  recording: readonly SignedReport[] | undefined,
  stream: (report: PublishedReport) => void,
): Publisher {
  const { seed, now, intervalMs, runAhead } = settings
  const network = createRotatingNetwork(curve, settings)
  const chains = new Map<string, Chain>()
  const schedule = createSchedule(
    recording === undefined ? [...feeds.values()].map(createTask) : [{ intervalMs, run: replay }],
  )
  let replayed = 0

  function chainOf(feed: Feed): Chain {
    const { feedID } = feed
    const last = ledger.latest(feedID)
    const chain = chains.get(feedID) ?? createChain(feed, network.sign, seed, last)
    chains.set(feedID, chain)
    return chain
  }

  function add(report: SignedReport, at: number, options?: PublishOptions): PublishedReport {
    const published = toPublished(report, at, forge, options)
    ledger.add(published)
    return published
  }

  function publish(
    feedID: string,
    fields?: ReportFields,
    options?: PublishOptions,
  ): PublishedReport {
    const feed = feeds.get(feedID.toLowerCase())
    if (feed === undefined) throw new ValidationError(`publish: there is no feed ${feedID}`)
    const { network: signers, storedAfterMs = 0 } = checkOptions('publish', options, names)
    checkNumber('publish: storedAfterMs', storedAfterMs, { min: 0 })
    const sign = (blob: string, seqNr: number) => network.sign(blob, seqNr, signers)
    const report = add(chainOf(feed).next(now(), fields, sign), now(), options)
    if (report.streamed) stream(report)
    return report
  }

  function replayNext(): PublishedReport | undefined {
    const recorded = recording?.[replayed]
    if (recorded === undefined) return undefined
    replayed++
    if (replayed === recording?.length) schedule.stop()
    const report = add(recorded, now())
    chains.get(report.feedID)?.follow(report)
    stream(report)
    return report
  }

  function replay(): number {
    replayNext()
    return 0
  }

  /** Publishes a feed at its interval, but waits for the clock instead of dating a report ahead of it. */
  function createTask({ feedID, intervalMs }: Feed): Task {
    return {
      intervalMs,
      run() {
        const waitMs = runAhead ? 0 : chainOf(feeds.get(feedID) as Feed).wait(now())
        if (waitMs === 0) publish(feedID)
        return waitMs
      },
    }
  }

  return {
    publish,
    replayNext,
    rotate: network.rotate,
    networks: network.sets,
    async makeHistory() {
      const start = now()
      for (const feed of feeds.values()) {
        const stepMs = Math.max(feed.intervalMs || 1000, feed.resolution === 's' ? 1000 : 1)
        for (let left = settings.history; left > 0; left--) {
          const at = start - left * stepMs
          add(chainOf(feed).next(at), at, { streamed: false })
        }
        await nextTick()
      }
    },
    start() {
      if (recording === undefined || replayed < recording.length) schedule.start()
    },
    stop: schedule.stop,
  }
}
