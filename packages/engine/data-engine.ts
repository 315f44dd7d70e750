import { checkNumber } from 'sluice/core'
import { asyncDispose } from 'sluice/internal'
import type { Archive } from './archive.js'
import type { EngineCatalogue } from './catalogue.js'
import type { SignedReport } from './chain.js'
import { EngineContext } from './context.js'
import type { Failure } from './faults.js'
import type { ReportFields } from './feeds.js'
import { frameOf } from './frame-faults.js'
import { FrontDoor } from './front-door.js'
import type { Delivery, PublishedReport, RequestRecord } from './ledger.js'
import { createHTTPListener, host as loopback } from './listener.js'
import { loadCurve, type RotateOptions, type SignerSet } from './network.js'
import { openEngines } from './open-engines.js'
import { checkEngineOptions, checkFeeds, type DataEngineOptions, type Settings } from './options.js'
import { type EngineOrigin, Origin } from './origin.js'
import { Publisher, type PublishOptions } from './publisher.js'
import { readRecording } from './replay.js'

/**
 * A running report service: REST and streams on loopback, and the network that signs its reports.
 */
export interface DataEngine {
  /** `http://127.0.0.1:PORT`, or the same with the address that the engine listens on. */
  readonly endpoint: string
  /** `ws://127.0.0.1:PORT` */
  readonly wsEndpoint: string
  /** The API key that the engine accepts now. */
  readonly apiKey: string
  /** The secret that requests must be signed with. */
  readonly userSecret: string
  /** The ids of all feeds, lower-case, in the order given. */
  readonly feeds: readonly string[]
  /** The current signers of generated reports. Recorded reports have their own signers. */
  readonly network: SignerSet
  /** Every set of signers so far, the oldest set first. */
  readonly networks: readonly SignerSet[]
  /**
   * The origins. If there are two or more, each has its own port, and the engine's endpoints are
   * those of a front door. The front door serves REST itself and lists the origins in the header
   * `X-Cll-Available-Origins`. It forwards an upgrade to the origin that the upgrade's
   * `X-Cll-Origin` names. If that origin is dead, it answers 502. Upgrades that name no known
   * origin go to the live origins, round robin.
   */
  readonly origins: readonly EngineOrigin[]
  /** What the catalogue says of the feeds. It answers `GET /api/v1/discovery`. */
  readonly catalogue: EngineCatalogue
  /** How many streams are open. */
  readonly connections: number
  /** Every retained report, in the order of publication. */
  ledger(): PublishedReport[]
  /** The latest 10 000 requests and upgrades, in order. */
  requests(): RequestRecord[]
  /**
   * The streams to which a report of the ledger was written unchanged. Deliveries during a
   * blackhole are added when the blackhole ends. A stream that got the report twice is listed
   * twice.
   */
  deliveries(report: PublishedReport): Delivery[]
  /**
   * Publishes the feed's next report now, with the given fields, and returns its ledger entry. The
   * report after it continues from this report's observationsTimestamp, unless that time is more
   * than a day ahead. No two reports of a feed share a time: a second report within one unit of the
   * feed is dated ahead of the clock. Automatic publishing then waits for the clock, unless
   * `runAhead` is set.
   */
  publish(feedID: string, fields?: ReportFields, options?: PublishOptions): PublishedReport
  /** Publishes the next recorded report now. Returns undefined if no report is left. */
  replayNext(): PublishedReport | undefined
  /**
   * Replaces the signers and the config digest. By default, the number of signers stays the same.
   */
  rotate(to?: RotateOptions): SignerSet
  /**
   * Replaces the accepted credentials. A credential that is left out stays the same. Open streams
   * stay open.
   */
  rotateKeys(to: { readonly apiKey?: string; readonly userSecret?: string }): void
  /** Grants or withdraws the right to read a feed. Open streams stay open. */
  entitle(feedID: string, isEntitled: boolean): void
  /** Stops automatic publishing. */
  pause(): void
  /**
   * Continues automatic publishing. It also moves a running engine over to fake timers that were
   * installed since, or back to real ones.
   */
  resume(): void
  /** The time of the engine's clock, in ms. */
  now(): number
  /**
   * Advances a manual clock by `ms`. Everything that becomes due is done at its own time, in order.
   * The clock goes on only when the reports so far are written to all streams. A client may read
   * them a moment later.
   */
  advance(ms: number): Promise<void>
  /**
   * Answers the next request or upgrade, or the next `times` of them, with this failure. Returns a
   * function that cancels the failure.
   */
  fail(failure: Failure): () => void
  /**
   * Closes all streams with a close code. 1005 sends an empty close frame; 1006 only ends the
   * connection. Without a code, it resets the connections. Returns the number of streams.
   */
  disconnect(code?: number): number
  /**
   * Sends a frame, as text or as bytes, to the subscribers of a feed. Without a feed, it sends the
   * frame to all streams. Returns the number of streams.
   */
  send(raw: string | Uint8Array, feedID?: string): number
  /**
   * While on, connections stay open and the engine answers nothing. When it is switched off,
   * everything that waited is answered.
   */
  blackhole(on: boolean): void
  /**
   * While on, the front door forwards upgrades that name a dead origin to a live one. Off at the
   * start.
   */
  reroute(on: boolean): void
  /** Stops the service: nothing listens, all connections are destroyed. Publishing continues. */
  stop(): Promise<void>
  /** Starts the service again on the same ports, except for killed origins. */
  start(): Promise<void>
  /** Closes the engine for good. */
  close(): Promise<void>
  /** The same as `close`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** The host in the engine's URLs. If the engine listens on all addresses, its URLs use loopback. */
function hostOf({ host }: Settings): string {
  if (host === '0.0.0.0' || host === '::') return loopback
  return host.includes(':') ? `[${host}]` : host
}

/**
 * Starts a data engine.
 *
 * @example
 * await using engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 100 })
 * const { endpoint, wsEndpoint, apiKey, userSecret } = engine
 */
export async function startDataEngine(options: DataEngineOptions = {}): Promise<DataEngine> {
  const settings = checkEngineOptions(options)
  const { replay } = settings
  const recording = replay === undefined ? undefined : await readRecording(replay)
  return (await openEngine(settings, recording)).engine
}

/** An engine, and the publisher of its reports. */
export interface OpenEngine {
  readonly engine: DataEngine
  readonly publisher: Publisher
  /** Resolves when every client has read what was sent to it. */
  readonly read: () => Promise<void>
}

/**
 * Starts an engine with these settings. Its feeds are those of the recording or the archive, if
 * there is one.
 */
export async function openEngine(
  settings: Settings,
  recording: readonly SignedReport[] | undefined,
  archive?: Archive,
): Promise<OpenEngine> {
  const { port, host, originIDs, clock } = settings
  const recorded = archive?.feeds ?? recording?.map(({ feedID }) => feedID)
  const feeds = checkFeeds(settings.feeds, recorded, settings.intervalMs)
  const context = new EngineContext(settings, feeds, await loadCurve(), archive)
  const { access, catalogue, faults, ledger, log } = context
  const isSingle = originIDs.length === 1
  const origins = originIDs.map(id =>
    isSingle ? new Origin(context, id, port, host) : new Origin(context, id, 0),
  )
  const frontDoor = new FrontDoor(context, origins)
  // A single origin needs no front door.
  const listener = isSingle
    ? (origins[0] as Origin).listener
    : createHTTPListener(port, frontDoor.handlers, host, settings.keepAlive)
  const publisher = new Publisher(context, recording, function stream(report) {
    const frame = frameOf(report)
    for (const origin of origins) origin.publish(frame)
  })
  let closing: Promise<void> | undefined
  let forget: (() => void) | undefined

  function sum(count: (origin: Origin) => number): number {
    return origins.reduce((total, origin) => total + count(origin), 0)
  }

  async function start(): Promise<void> {
    await Promise.all(origins.map(origin => origin.start()))
    if (!isSingle) await listener.open()
  }

  async function end(how: 'stop' | 'close'): Promise<void> {
    await Promise.all([listener.close(), ...origins.map(origin => origin[how]())])
  }

  function close(): Promise<void> {
    publisher.stop()
    faults.clear()
    forget?.()
    closing ??= end('close')
    return closing
  }

  function checkOpen(): void {
    if (closing !== undefined) throw new Error('the data engine is closed')
  }

  async function written(): Promise<void> {
    await Promise.all(origins.map(({ streams }) => streams.written()))
  }

  async function read(): Promise<void> {
    await Promise.all(origins.map(({ streams }) => streams.read()))
  }

  await publisher.makeHistory()
  try {
    await start()
  } catch (error) {
    await close()
    throw error
  }
  publisher.start()
  const endpoint = `http://${hostOf(settings)}:${listener.port}`
  if (!settings.keepAlive) forget = openEngines.add(endpoint)

  const engine: DataEngine = {
    endpoint,
    wsEndpoint: `ws://${hostOf(settings)}:${listener.port}`,
    get apiKey() {
      return access.credentials.apiKey
    },
    get userSecret() {
      return access.credentials.userSecret
    },
    feeds: Object.freeze([...feeds.keys()]),
    get network() {
      return publisher.network.sets.at(-1) as SignerSet
    },
    get networks() {
      return publisher.network.sets
    },
    catalogue: {
      get: feedID => catalogue.get(feedID),
      set: (...what) => catalogue.set(...what),
    },
    origins: Object.freeze(origins.map(origin => origin.handle)),
    get connections() {
      return sum(({ streams }) => streams.count)
    },
    ledger: () => ledger.all(),
    requests: () => log.all(),
    deliveries: report => ledger.deliveriesOf(report),
    publish(...what) {
      checkOpen()
      return publisher.publish(...what)
    },
    replayNext() {
      checkOpen()
      return publisher.replayNext()
    },
    rotate: to => publisher.network.rotate(to),
    rotateKeys: to => access.rotateKeys(to),
    entitle: (...to) => access.entitle(...to),
    pause: () => publisher.stop(),
    resume() {
      if (closing === undefined) publisher.start()
    },
    now: () => clock.now(),
    async advance(ms) {
      checkOpen()
      await clock.advance(checkNumber('advance: ms', ms, { min: 0, whole: true }), written)
    },
    fail: failure => faults.fail(failure),
    disconnect: code => sum(({ streams }) => streams.disconnect(code)),
    send(raw, feedID) {
      const frame = { data: raw, feedID: feedID?.toLowerCase(), report: undefined }
      return sum(({ streams }) => streams.send(frame))
    },
    blackhole(on) {
      for (const origin of origins) origin.blackhole('engine', on)
      faults.blackhole(on)
    },
    reroute(on) {
      frontDoor.isRerouting = on
    },
    stop: () => end('stop'),
    async start() {
      checkOpen()
      await start()
    },
    close,
    [asyncDispose]: close,
  }
  return { engine, publisher, read }
}
