import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Chain, createChain, type SignedReport } from './chain.js'
import { loadCurve } from './curve.js'
import { createDeliveries, type Delivery } from './deliveries.js'
import { createFaults, type Failure } from './faults.js'
import type { Feed, ReportFields } from './feeds.js'
import { createForge, type Forgery } from './forge.js'
import { createFrontDoor } from './front-door.js'
import { createLedger, type PublishedReport } from './ledger.js'
import { createListener, host } from './listener.js'
import { createNetwork, type SignerSet } from './network.js'
import { checkFeeds, checkOptions, type DataEngineOptions } from './options.js'
import { createOrigin, type EngineOrigin, type Origin } from './origin.js'
import { createRateLimit } from './rate-limit.js'
import { readRecording } from './replay.js'
import { createRequestLog, type RequestRecord } from './request-log.js'
import { createEndpoints, createFindFeed } from './rest.js'
import { createSchedule, type Task } from './schedule.js'
import { createService } from './service.js'
import type { Frame } from './websocket-server.js'

/** The generation of signers that no report is to be signed by. */
const STRANGERS = -1

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
  /**
   * Forges it, for the stream and for REST.
   * @default no forgery
   */
  readonly forged?: Forgery
}

/** A running report service: REST and streams on loopback, and a network of signers that signs for it. */
export interface DataEngine {
  /** `http://127.0.0.1:PORT` */
  readonly endpoint: string
  /** `ws://127.0.0.1:PORT` */
  readonly wsEndpoint: string
  /** The keys that are let in now. */
  readonly apiKey: string
  readonly userSecret: string
  /** The ids of all feeds, lower-case, in the order given. */
  readonly feeds: readonly string[]
  /** The signers of the reports that are made now; recorded reports have signers of their own. */
  readonly network: SignerSet
  /** The signers of all reports that were made here, the oldest set first. */
  readonly networks: readonly SignerSet[]
  /**
   * The origins. Of two or more each has its own port; the engine's endpoints are then those of a front door, which
   * serves REST itself, names the origins in the header `X-Cll-Available-Origins`, and hands an upgrade to the one that
   * its `X-Cll-Origin` names: a dead one is answered with 502. Without the header, or if there is no such origin, any
   * live one gets it, in turn.
   */
  readonly origins: readonly EngineOrigin[]
  /** How many streams are open. */
  readonly connections: number
  /** Every report published and still kept, in order. */
  ledger(): PublishedReport[]
  /** The latest 10 000 requests and upgrades, in the order they came. */
  requests(): RequestRecord[]
  /**
   * The streams a report of the ledger has been written to: not those it was kept from or sent corrupt, and those in a
   * blackhole only when it ends. A stream that got it twice is there twice.
   */
  deliveries(report: PublishedReport): Delivery[]
  /**
   * Publishes the feed's next report now, with those fields overridden, and returns its ledger entry. The next report
   * goes on from its observationsTimestamp, unless that is more than a day ahead. No two share a time: what is published
   * within one unit of the feed is dated ahead of the clock, and automatic publishing waits for the clock.
   */
  publish(feedID: string, fields?: ReportFields, options?: PublishOptions): PublishedReport
  /** Publishes the next recorded report now; undefined when there is none left. */
  replayNext(): PublishedReport | undefined
  /** From now on other signers sign, under another config digest: as many as before, unless told otherwise. */
  rotate(to?: { readonly nodes?: number; readonly f?: number }): SignerSet
  /** From now on other keys are let in, and those of before are not; what is left out stays. Open streams stay too. */
  rotateKeys(to: { readonly apiKey?: string; readonly userSecret?: string }): void
  /** Grants or withdraws the right to read a feed; streams that are open stay so. */
  entitle(feedID: string, isEntitled: boolean): void
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
  /** While on, the front door hands upgrades that name a dead origin to a live one. Off at the start. */
  reroute(on: boolean): void
  /** Takes the service away: nothing listens, all connections are destroyed. Publishing goes on. */
  stop(): Promise<void>
  /** Brings the service back on the same ports, but for origins that are killed. */
  start(): Promise<void>
  /** Ends everything, for good. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

// Node 20.0 has no such symbol, and compilers then take this one.
const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for('Symbol.asyncDispose') as typeof Symbol.asyncDispose)

function frameOf(report: PublishedReport): Frame {
  const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
  const envelope = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
  return { data: Buffer.from(JSON.stringify({ report: envelope })), feedID, report }
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
  const { intervalMs, seed, now } = settings
  const credentials = { apiKey: settings.apiKey, userSecret: settings.userSecret }
  const recording = options.replay === undefined ? undefined : await readRecording(options.replay)
  const feeds = checkFeeds(options.feeds, recording, intervalMs)
  const curve = await loadCurve()
  let network = createNetwork(curve, seed, settings.nodes, settings.f)
  const networks = [network.set]
  const forge = createForge(createNetwork(curve, seed, settings.nodes, settings.f, STRANGERS))
  const ledger = createLedger(settings.retain)
  const log = createRequestLog()
  const faults = createFaults()
  const deliveries = createDeliveries(now)
  const findFeed = createFindFeed(feeds)
  const parts = {
    credentials,
    endpoints: createEndpoints(feeds, findFeed, ledger),
    findFeed,
    log,
    rateLimit: settings.rateLimit === undefined ? undefined : createRateLimit(settings.rateLimit),
    now,
    headers: () => ({
      date: new Date(now()).toUTCString(),
      'x-cll-available-origins': `{${listed().join(',')}}`,
    }),
  }
  let streamsOpened = 0
  const streams = {
    maxBufferedBytes: settings.maxBufferedBytes,
    compression: settings.compression,
    nextNumber: () => ++streamsOpened,
  }
  const isSingle = settings.origins.length === 1
  const origins = settings.origins.map(id =>
    createOrigin({
      id,
      port: isSingle ? settings.port : 0,
      seed,
      service: parts,
      faults,
      streams,
      deliveries,
      forged: (report, how) => ({
        ...frameOf({ ...report, fullReport: forge(report.fullReport, how) }),
        report: undefined,
      }),
    }),
  )
  const frontDoor = createFrontDoor(createService({ ...parts, faults }), origins)
  // A single origin is the engine's own listener.
  const listener =
    isSingle && origins[0] !== undefined
      ? origins[0].listener
      : createListener(settings.port, frontDoor.handlers)

  const chains = new Map<string, Chain>()
  let replayed = 0
  let isClosed = false
  let closing: Promise<void> | undefined

  function listed(): string[] {
    return origins.filter(origin => origin.isAdvertised).map(origin => origin.id)
  }

  function sign(blob: string, seqNr: number): string {
    return network.sign(blob, seqNr)
  }

  function chainOf(feed: Feed): Chain {
    const found = chains.get(feed.feedID)
    if (found !== undefined) return found
    const chain = createChain(feed, sign, seed)
    const before = ledger.latest(feed.feedID)
    if (before !== undefined) chain.follow(before)
    chains.set(feed.feedID, chain)
    return chain
  }

  function record(
    { feedID, fullReport, validFromTimestamp, observationsTimestamp, seqNr }: SignedReport,
    publishedAt: number,
    { streamed = true, stored = true, forged }: PublishOptions = {},
  ): PublishedReport {
    const times = { validFromTimestamp, observationsTimestamp }
    const report = Object.freeze({
      feedID,
      fullReport: forged === undefined ? fullReport : forge(fullReport, forged),
      ...times,
      seqNr,
      publishedAt,
      streamed,
      stored,
    })
    ledger.add(report)
    return report
  }

  function stream(report: PublishedReport): void {
    const frame = frameOf(report)
    for (const origin of origins) origin.publish(frame, report)
  }

  /** Adds up what is done at every origin. */
  function sum(count: (origin: Origin) => number): number {
    return origins.reduce((total, origin) => total + count(origin), 0)
  }

  function checkOpen(): void {
    if (isClosed) throw new Error('the data engine is closed')
  }

  function publish(feedID: string, fields?: ReportFields, to?: PublishOptions): PublishedReport {
    checkOpen()
    const feed = feeds.get(feedID.toLowerCase())
    if (feed === undefined) throw new RangeError(`publish: there is no feed ${feedID}`)
    const report = record(chainOf(feed).next(now(), fields), now(), to)
    if (report.streamed) stream(report)
    return report
  }

  function entitle(feedID: string, isEntitled: boolean): void {
    const feed = feeds.get(feedID.toLowerCase())
    if (feed === undefined) throw new RangeError(`entitle: there is no feed ${feedID}`)
    if (typeof isEntitled !== 'boolean')
      throw new RangeError(`entitle: isEntitled must be true or false, not ${String(isEntitled)}`)
    feeds.set(feed.feedID, { ...feed, entitled: isEntitled })
  }

  function rotate(to: { readonly nodes?: number; readonly f?: number } = {}): SignerSet {
    const { f, nodes } = checkOptions({
      f: to.f ?? network.set.f,
      nodes: to.nodes ?? (to.f === undefined ? network.set.signers.length : 3 * to.f + 1),
    })
    network = createNetwork(curve, seed, nodes, f, networks.length)
    networks.push(network.set)
    return network.set
  }

  function rotateKeys(to: { readonly apiKey?: string; readonly userSecret?: string }): void {
    const { apiKey, userSecret } = checkOptions({
      apiKey: to?.apiKey ?? credentials.apiKey,
      userSecret: to?.userSecret ?? credentials.userSecret,
    })
    Object.assign(credentials, { apiKey, userSecret })
  }

  function replayNext(): PublishedReport | undefined {
    checkOpen()
    const recorded = recording?.[replayed]
    if (recorded === undefined) return undefined
    replayed++
    if (replayed === recording?.length) schedule.stop()
    const report = record(recorded, now())
    chains.get(report.feedID)?.follow(report)
    stream(report)
    return report
  }

  function findTasks(): Task[] {
    if (recording !== undefined) return intervalMs > 0 ? [{ intervalMs, run: replay }] : []
    return [...feeds.values()]
      .filter(feed => feed.intervalMs > 0)
      .map(feed => ({ intervalMs: feed.intervalMs, run: () => publishWhenDue(feed) }))
  }

  function replay(): number {
    replayNext()
    return 0
  }

  /** Publishes unless the report would be dated ahead of the clock; returns how many ms it is too early. */
  function publishWhenDue(feed: Feed): number {
    const waitMs = settings.runAhead ? 0 : chainOf(feed).wait(now())
    if (waitMs === 0) publish(feed.feedID)
    return waitMs
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
  try {
    await open()
  } catch (error) {
    await close()
    throw error
  }
  schedule.start()

  async function open(): Promise<void> {
    await Promise.all(origins.map(origin => origin.start()))
    if (!isSingle) await listener.open()
  }

  async function start(): Promise<void> {
    checkOpen()
    await open()
  }

  async function stop(): Promise<void> {
    await Promise.all([listener.close(), ...origins.map(origin => origin.stop())])
  }

  async function closeAll(): Promise<void> {
    await Promise.all([listener.close(), ...origins.map(origin => origin.close())])
  }

  function close(): Promise<void> {
    isClosed = true
    schedule.stop()
    faults.clear()
    closing ??= closeAll()
    return closing
  }

  return {
    endpoint: `http://${host}:${listener.port}`,
    wsEndpoint: `ws://${host}:${listener.port}`,
    get apiKey() {
      return credentials.apiKey
    },
    get userSecret() {
      return credentials.userSecret
    },
    feeds: Object.freeze([...feeds.keys()]),
    get network() {
      return network.set
    },
    get networks() {
      return [...networks]
    },
    origins: Object.freeze(origins.map(origin => origin.handle)),
    get connections() {
      return sum(origin => origin.handle.connections)
    },
    ledger: ledger.all,
    requests: log.all,
    deliveries: deliveries.of,
    publish,
    replayNext,
    rotate,
    rotateKeys,
    entitle,
    pause: schedule.stop,
    resume() {
      if (!isClosed && (recording === undefined || replayed < recording.length)) schedule.start()
    },
    fail: faults.fail,
    disconnect: code => sum(origin => origin.handle.disconnect(code)),
    send(raw, feedID) {
      const frame = { data: raw, feedID: feedID?.toLowerCase(), report: undefined }
      return sum(origin => origin.send(frame))
    },
    blackhole(on) {
      for (const origin of origins) origin.blackhole(on)
      faults.blackhole(on)
    },
    reroute: frontDoor.reroute,
    stop,
    start,
    close,
    [asyncDispose]: close,
  }
}
