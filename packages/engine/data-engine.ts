import { asyncDispose } from 'sluice/internal'
import { createContext, type EngineContext } from './context.js'
import type { Failure } from './faults.js'
import type { ReportFields } from './feeds.js'
import { frameOf } from './frame-faults.js'
import { createFrontDoor } from './front-door.js'
import type { Delivery, PublishedReport } from './ledger.js'
import { createHTTPListener, host as loopback } from './listener.js'
import type { RotateOptions, SignerSet } from './network.js'
import { checkEngineOptions, checkFeeds, type DataEngineOptions } from './options.js'
import { createOrigin, type EngineOrigin, type Origin } from './origin.js'
import { createPublisher, type PublishOptions } from './publisher.js'
import { readRecording } from './replay.js'
import type { RequestRecord } from './request-log.js'

/** A running report service: REST and streams on loopback, and the network that signs its reports. */
export interface DataEngine {
  /** `http://127.0.0.1:PORT`, or at the address that it listens on. */
  readonly endpoint: string
  /** `ws://127.0.0.1:PORT` */
  readonly wsEndpoint: string
  /** The credentials that are accepted now. */
  readonly apiKey: string
  /** The secret that requests must be signed with. */
  readonly userSecret: string
  /** The ids of all feeds, lower-case, in the order given. */
  readonly feeds: readonly string[]
  /** The current signers of made reports; recorded reports have signers of their own. */
  readonly network: SignerSet
  /** The signers of all reports made so far, the oldest set first. */
  readonly networks: readonly SignerSet[]
  /**
   * The origins. Two or more have a port each; the engine's endpoints are then those of a front door, which serves REST
   * itself, lists the origins in the header `X-Cll-Available-Origins`, and forwards an upgrade to the origin that its
   * `X-Cll-Origin` names; if that is dead it answers 502. Upgrades that name no known origin go to the live ones, round
   * robin.
   */
  readonly origins: readonly EngineOrigin[]
  /** How many streams are open. */
  readonly connections: number
  /** Every retained report, in the order of publication. */
  ledger(): PublishedReport[]
  /** The latest 10 000 requests and upgrades, in order. */
  requests(): RequestRecord[]
  /**
   * The streams to which a report of the ledger was written unchanged; during a blackhole they are added at its end. A
   * stream that got it twice is listed twice.
   */
  deliveries(report: PublishedReport): Delivery[]
  /**
   * Publishes the feed's next report now, with the given fields, and returns its ledger entry. The report after it
   * continues from its observationsTimestamp, unless that is more than a day ahead. No two reports share a time: a
   * second one within one unit of the feed is dated ahead of the clock, and automatic publishing waits for the clock.
   */
  publish(feedID: string, fields?: ReportFields, options?: PublishOptions): PublishedReport
  /** Publishes the next recorded report now; undefined if there is none left. */
  replayNext(): PublishedReport | undefined
  /** Replaces the signers and the config digest; the default is as many signers as before. */
  rotate(to?: RotateOptions): SignerSet
  /** Replaces the accepted credentials; those left out stay, and so do open streams. */
  rotateKeys(to: { readonly apiKey?: string; readonly userSecret?: string }): void
  /** Grants or withdraws the right to read a feed; open streams stay. */
  entitle(feedID: string, isEntitled: boolean): void
  /** Stops automatic publishing. */
  pause(): void
  /** Continues automatic publishing. */
  resume(): void
  /** Answers the next request or upgrade, or the next `times`, with this. Returns a function that cancels it. */
  fail(failure: Failure): () => void
  /**
   * Closes all streams with a close code (1005 sends an empty close frame, 1006 only ends the connection); without one,
   * resets the connections. Returns how many there were.
   */
  disconnect(code?: number): number
  /** Sends a frame, as text or as bytes, to the subscribers of a feed or to all. Returns how many there were. */
  send(raw: string | Uint8Array, feedID?: string): number
  /** While on, connections stay open and nothing is answered; afterwards, everything is. */
  blackhole(on: boolean): void
  /** While on, the front door forwards upgrades that name a dead origin to a live one. Off at the start. */
  reroute(on: boolean): void
  /** Stops the service: nothing listens, all connections are destroyed. Publishing continues. */
  stop(): Promise<void>
  /** Starts the service again on the same ports, except for killed origins. */
  start(): Promise<void>
  /** Ends everything, for good. */
  close(): Promise<void>
  /** The same as `close`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** The host of the engine's URLs: who listens on all addresses is reached on loopback. */
function hostOf({ host }: EngineContext['settings']): string {
  if (host === '0.0.0.0' || host === '::') return loopback
  return host.includes(':') ? `[${host}]` : host
}

/** The servers of an engine, stopped. A single origin needs no front door. */
function createServers(context: EngineContext) {
  const { port, host, origins: ids } = context.settings
  const isSingle = ids.length === 1
  const origins = ids.map(id =>
    isSingle ? createOrigin(context, id, port, host) : createOrigin(context, id, 0),
  )
  const frontDoor = createFrontDoor(context, origins)
  const listener = isSingle
    ? (origins[0] as Origin).listener
    : createHTTPListener(port, frontDoor.handlers, host)

  return {
    origins,
    listener,
    reroute: frontDoor.reroute,
    /** Adds up a number over the origins. */
    sum: (count: (origin: Origin) => number): number =>
      origins.reduce((total, origin) => total + count(origin), 0),
    async start(): Promise<void> {
      await Promise.all(origins.map(origin => origin.start()))
      if (!isSingle) await listener.open()
    },
    async stop(): Promise<void> {
      await Promise.all([listener.close(), ...origins.map(origin => origin.stop())])
    },
    async close(): Promise<void> {
      await Promise.all([listener.close(), ...origins.map(origin => origin.close())])
    },
  }
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
  const recording = options.replay === undefined ? undefined : await readRecording(options.replay)
  const feeds = checkFeeds(options.feeds, recording, settings.intervalMs)
  const context = await createContext(settings, feeds)
  const { access, faults, ledger, log } = context
  const servers = createServers(context)
  const publisher = createPublisher(context, recording, function stream(report) {
    const frame = frameOf(report)
    for (const origin of servers.origins) origin.publish(frame)
  })
  let closing: Promise<void> | undefined

  function checkOpen(): void {
    if (closing !== undefined) throw new Error('the data engine is closed')
  }

  function close(): Promise<void> {
    publisher.stop()
    faults.clear()
    closing ??= servers.close()
    return closing
  }

  await publisher.makeHistory()
  try {
    await servers.start()
  } catch (error) {
    await close()
    throw error
  }
  publisher.start()

  return {
    endpoint: `http://${hostOf(settings)}:${servers.listener.port}`,
    wsEndpoint: `ws://${hostOf(settings)}:${servers.listener.port}`,
    get apiKey() {
      return access.credentials.apiKey
    },
    get userSecret() {
      return access.credentials.userSecret
    },
    feeds: Object.freeze([...feeds.keys()]),
    get network() {
      return publisher.networks.at(-1) as SignerSet
    },
    get networks() {
      return [...publisher.networks]
    },
    origins: Object.freeze(servers.origins.map(origin => origin.handle)),
    get connections() {
      return servers.sum(origin => origin.handle.connections)
    },
    ledger: ledger.all,
    requests: log.all,
    deliveries: ledger.deliveriesOf,
    publish(feedID, fields, options) {
      checkOpen()
      return publisher.publish(feedID, fields, options)
    },
    replayNext() {
      checkOpen()
      return publisher.replayNext()
    },
    rotate: publisher.rotate,
    rotateKeys: access.rotateKeys,
    entitle: access.entitle,
    pause: publisher.stop,
    resume() {
      if (closing === undefined) publisher.start()
    },
    fail: faults.fail,
    disconnect: code => servers.sum(origin => origin.handle.disconnect(code)),
    send(raw, feedID) {
      const frame = { data: raw, feedID: feedID?.toLowerCase(), report: undefined }
      return servers.sum(origin => origin.streams.send(frame))
    },
    blackhole(on) {
      for (const origin of servers.origins) origin.blackhole(on)
      faults.blackhole(on)
    },
    reroute: servers.reroute,
    stop: servers.stop,
    async start() {
      checkOpen()
      await servers.start()
    },
    close,
    [asyncDispose]: close,
  }
}
