import { setImmediate as nextTurn } from 'node:timers/promises'
import { jsonAnswer, writeRawAnswer } from './answer.js'
import { type Chain, createChain, type SignedReport } from './chain.js'
import { createFaults, type Failure } from './faults.js'
import type { Feed, ReportFields } from './feeds.js'
import { createLedger, type PublishedReport } from './ledger.js'
import { createListener, host } from './listener.js'
import { createNetwork, type SignerSet } from './network.js'
import { checkFeeds, checkOptions, type DataEngineOptions } from './options.js'
import { createRateLimit } from './rate-limit.js'
import { readRecording } from './replay.js'
import { createRequestLog, type RequestRecord } from './request-log.js'
import { createEndpoints, createFindFeed } from './rest.js'
import { createSchedule } from './schedule.js'
import { createService } from './service.js'
import { createStreams } from './websocket-server.js'

/** Where a report that is published by hand goes. */
export interface PublishOptions {
  /**
   * Whether subscribers get it; false is a report the stream has missed.
   * @default true
   */
  readonly streamed?: boolean
  /**
   * Whether REST answers with it; false is a report the service has lost.
   * @default true
   */
  readonly stored?: boolean
}

/** A running report service: REST and streams on loopback, and a network of signers that signs for it. */
export interface DataEngine {
  /** `http://127.0.0.1:PORT` */
  readonly endpoint: string
  /** `ws://127.0.0.1:PORT` */
  readonly wsEndpoint: string
  readonly apiKey: string
  readonly userSecret: string
  /** The ids of all feeds, lower-case, in the order given. */
  readonly feeds: readonly string[]
  /** The signers of the reports made here; recorded reports have signers of their own. */
  readonly network: SignerSet
  /** The ids in the header `X-Cll-Available-Origins`. */
  readonly origins: readonly string[]
  /** How many streams are open. */
  readonly connections: number
  /** Every report published and still kept, in order. */
  ledger(): PublishedReport[]
  /** The latest 10 000 requests and upgrades, in the order they came. */
  requests(): RequestRecord[]
  /**
   * Publishes the feed's next report now, with those fields overridden, and returns its ledger entry. The next report
   * goes on from its observationsTimestamp, unless that is more than a day ahead.
   */
  publish(feedID: string, fields?: ReportFields, options?: PublishOptions): PublishedReport
  /** Publishes the next recorded report now; undefined when there is none left. */
  replayNext(): PublishedReport | undefined
  /** Stops automatic publishing. */
  pause(): void
  /** Goes on with automatic publishing. */
  resume(): void
  /** Answers requests or upgrades, the next one unless told otherwise, with this; returns how to call it off. */
  fail(failure: Failure): () => void
  /**
   * Closes all streams: with a close code (1005 sends an empty close frame, 1006 only ends the connection), or without
   * one by resetting the connections. Returns how many there were.
   */
  disconnect(code?: number): number
  /** Sends a frame, as text or as bytes, to the subscribers of a feed or to all. Returns how many there were. */
  send(raw: string | Uint8Array, feedID?: string): number
  /** While on, connections stay open and nothing is answered; afterwards what was held back goes out. */
  blackhole(on: boolean): void
  /** Takes the service away: nothing listens, all connections are destroyed. Publishing goes on. */
  stop(): Promise<void>
  /** Brings the service back on the same port. */
  start(): Promise<void>
  /** Ends everything, for good. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

// Node 20.0 has no such symbol, and compilers then take this one.
const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose)

function frameOf({
  feedID,
  fullReport,
  validFromTimestamp,
  observationsTimestamp,
}: SignedReport): Buffer {
  const report = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
  return Buffer.from(JSON.stringify({ report }))
}

/**
 * Starts a data engine.
 *
 * @example
 * await using engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 100 })
 * const { endpoint, wsEndpoint, apiKey, userSecret } = engine
 */
export async function startDataEngine(options: DataEngineOptions = {}): Promise<DataEngine> {
  const settings = checkOptions(options)
  const { apiKey, userSecret, origins, intervalMs, seed, now } = settings
  const recording = options.replay === undefined ? undefined : await readRecording(options.replay)
  const feeds = checkFeeds(options.feeds, recording, intervalMs)
  const network = createNetwork(seed, settings.nodes, settings.f)
  const ledger = createLedger(settings.retain)
  const log = createRequestLog()
  const faults = createFaults()

  const headers = (): Record<string, string> => ({
    date: new Date(now()).toUTCString(),
    'x-cll-available-origins': `{${origins.join(',')}}`,
  })
  const streams = createStreams({
    maxBufferedBytes: settings.maxBufferedBytes,
    headers,
    refuse: (socket, message) => writeRawAnswer(socket, jsonAnswer({ message }, 400, headers())),
  })
  const findFeed = createFindFeed(feeds)
  const service = createService({
    credentials: { apiKey, userSecret },
    endpoints: createEndpoints(feeds, findFeed, ledger),
    findFeed,
    streams,
    faults,
    log,
    rateLimit: settings.rateLimit === undefined ? undefined : createRateLimit(settings.rateLimit),
    origins,
    now,
    headers,
  })
  const listener = createListener(settings.port, service)

  const chains = new Map<string, Chain>()
  let replayed = 0
  let isClosed = false
  let closing: Promise<void> | undefined

  function chainOf(feed: Feed): Chain {
    const found = chains.get(feed.feedID)
    if (found !== undefined) return found
    const chain = createChain(feed, network, seed)
    const before = ledger.latest(feed.feedID)
    if (before !== undefined) chain.follow(before)
    chains.set(feed.feedID, chain)
    return chain
  }

  function record(
    { feedID, fullReport, validFromTimestamp, observationsTimestamp, seqNr }: SignedReport,
    publishedAt: number,
    { streamed = true, stored = true }: PublishOptions = {},
  ): PublishedReport {
    const times = { validFromTimestamp, observationsTimestamp }
    const report = Object.freeze({
      feedID,
      fullReport,
      ...times,
      seqNr,
      publishedAt,
      streamed,
      stored,
    })
    ledger.add(report)
    return report
  }

  function checkOpen(): void {
    if (isClosed) throw new Error('the data engine is closed')
  }

  function publish(feedID: string, fields?: ReportFields, to?: PublishOptions): PublishedReport {
    checkOpen()
    const feed = feeds.get(feedID.toLowerCase())
    if (feed === undefined) throw new RangeError(`publish: there is no feed ${feedID}`)
    const report = record(chainOf(feed).next(now(), fields), now(), to)
    if (report.streamed) streams.send(frameOf(report), report.feedID)
    return report
  }

  function replayNext(): PublishedReport | undefined {
    checkOpen()
    const recorded = recording?.[replayed]
    if (recorded === undefined) return undefined
    replayed++
    if (replayed === recording?.length) schedule.stop()
    const report = record(recorded, now())
    chains.get(report.feedID)?.follow(report)
    streams.send(frameOf(report), report.feedID)
    return report
  }

  function findTasks(): { intervalMs: number; run: () => void }[] {
    if (recording !== undefined)
      return intervalMs > 0 ? [{ intervalMs, run: () => void replayNext() }] : []
    return [...feeds.values()]
      .filter(feed => feed.intervalMs > 0)
      .map(feed => ({ intervalMs: feed.intervalMs, run: () => void publish(feed.feedID) }))
  }

  async function makeHistory(): Promise<void> {
    const start = now()
    for (const feed of feeds.values()) {
      const unitMs = feed.resolution === 's' ? 1000 : 1
      const stepMs = Math.max(feed.intervalMs || 1000, unitMs)
      for (let left = settings.history; left > 0; left--) {
        const at = start - left * stepMs
        record(chainOf(feed).next(at), at, { streamed: false })
      }
      await nextTurn()
    }
  }

  const schedule = createSchedule(findTasks())
  await makeHistory()
  await listener.open()
  schedule.start()

  async function start(): Promise<void> {
    checkOpen()
    await listener.open()
  }

  function close(): Promise<void> {
    isClosed = true
    schedule.stop()
    faults.clear()
    closing ??= listener.close()
    return closing
  }

  return {
    endpoint: `http://${host}:${listener.port}`,
    wsEndpoint: `ws://${host}:${listener.port}`,
    apiKey,
    userSecret,
    feeds: Object.freeze([...feeds.keys()]),
    network: network.set,
    origins: Object.freeze([...origins]),
    get connections() {
      return streams.count
    },
    ledger: ledger.all,
    requests: log.all,
    publish,
    replayNext,
    pause: schedule.stop,
    resume() {
      if (!isClosed && (recording === undefined || replayed < recording.length)) schedule.start()
    },
    fail: faults.fail,
    disconnect: streams.disconnect,
    send: (raw, feedID) => streams.send(raw, feedID?.toLowerCase()),
    blackhole(on) {
      streams.hold(on)
      faults.blackhole(on)
    },
    stop: listener.close,
    start,
    close,
    [asyncDispose]: close,
  }
}
