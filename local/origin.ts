import { jsonAnswer, writeRawAnswer } from './answer.js'
import { createFaults, type Faults } from './faults.js'
import type { Forgery } from './forge.js'
import { createFrameFaults, type FrameFaults } from './frame-faults.js'
import type { PublishedReport } from './ledger.js'
import { createHTTPListener, host, type Listener } from './listener.js'
import { createService, type ServiceParts } from './service.js'
import { createStreams, type Frame, type Streams, type StreamsOptions } from './websocket-server.js'

/**
 * One origin of an engine, with its own listener and its own faults. They apply at once, to open streams too, outlast
 * `kill` and the engine's `stop`, and do not affect other origins. Faults of frames are for reports: frames of
 * `engine.send` are sent unchanged.
 */
export interface EngineOrigin {
  /** `001` */
  readonly id: string
  /** `ws://127.0.0.1:PORT` of this origin alone; the engine's own if there is only one origin. */
  readonly wsEndpoint: string
  /** How many of its streams are open. */
  readonly connections: number
  /** How many upgrades were for it, answered or not, including those the front door had for it while it was dead. */
  readonly upgrades: number
  /** Kills the origin: nothing listens, connections are reset. Buffered and delayed reports are lost. */
  kill(): Promise<void>
  /** Restarts a killed origin on its port; if the engine is stopped, at its start. */
  restart(): Promise<void>
  /** While on, connections are accepted and stay open, and nothing is answered; afterwards, everything is. */
  blackhole(on: boolean): void
  /** Answers upgrades with a status, all or the next `times`; undefined ends it. */
  refuse(status: number | undefined, times?: number): void
  /** Delays reports by `ms`, in their order; 0 ends it and sends the delayed ones. */
  delay(ms: number): void
  /** Drops this share of reports, 0 to 1, or those the function picks. */
  drop(rate: number | ((report: PublishedReport) => boolean)): void
  /** Sends this share of reports, 0 to 1, twice. */
  duplicate(rate: number): void
  /**
   * Sends reports in another order, none more than `depth` places from its own; 0 ends it and sends the buffered
   * ones.
   */
  reorder(depth: number): void
  /** Forges this share of reports, 0 to 1, or all; undefined ends it. A forged report is no delivery. */
  forge(how: Forgery | undefined, rate?: number): void
  /** Changes one to four neighbouring bytes of this share of reports, 0 to 1; the WebSocket frames stay valid. */
  corrupt(rate: number): void
  /** As the engine's, for the streams of this origin. */
  disconnect(code?: number): number
  /** Removes it from the list of origins; streams stay, and upgrades that name it still reach it. */
  leave(): void
  /** Puts it back on the list of origins. */
  join(): void
}

/** An origin, as the engine and its front door use it. */
export interface Origin {
  readonly handle: EngineOrigin
  readonly id: string
  readonly listener: Listener
  readonly isAdvertised: boolean
  /** Counts an upgrade that did not reach it. */
  readonly countUpgrade: () => void
  /** Sends a report's frame, through the origin's faults. */
  readonly publish: (frame: Frame, report: PublishedReport) => void
  /** Sends a frame unchanged. Returns how many subscribers there were. */
  readonly send: (frame: Frame) => number
  /** The engine's blackhole; the origin has its own. */
  readonly blackhole: (on: boolean) => void
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
  /** Ends it for good. */
  readonly close: () => Promise<void>
}

/** The parts of an origin. */
export interface OriginParts {
  readonly id: string
  readonly port: number
  readonly seed: number
  readonly service: Omit<ServiceParts, 'faults'>
  /** The engine's faults: their failures are for all origins. */
  readonly faults: Faults
  readonly streams: Omit<StreamsOptions, 'headers' | 'onSent' | 'reject'>
  readonly onSent: (report: PublishedReport, origin: string, stream: number) => void
  /** The frame of a report, forged. */
  readonly forged: (report: PublishedReport, how: Forgery) => Frame
}

interface OriginServer {
  readonly faults: Faults
  readonly streams: Streams
  readonly frames: FrameFaults
  readonly listener: Listener
}

function createOriginServer(parts: OriginParts, onUpgrade: () => void): OriginServer {
  const { id, port, seed } = parts
  const { headers } = parts.service
  const faults = createFaults(parts.faults)
  const streams = createStreams({
    ...parts.streams,
    headers,
    onSent: (report, stream) => parts.onSent(report, id, stream),
    reject: (socket, message) => writeRawAnswer(socket, jsonAnswer({ message }, 400, headers())),
  })
  const frames = createFrameFaults(seed, `origin ${id}`, streams.send, parts.forged)
  const service = createService({ ...parts.service, faults })
  const openStream = service.upgradeTo(streams)
  const listener = createHTTPListener(port, {
    ...service,
    upgrade(request, socket, head) {
      onUpgrade()
      openStream(request, socket, head)
    },
  })
  return { faults, streams, frames, listener }
}

/** An origin that is not started. */
export function createOrigin(parts: OriginParts): Origin {
  const { id } = parts
  const { faults, streams, frames, listener } = createOriginServer(parts, countUpgrade)
  let upgrades = 0
  let isAdvertised = true
  let isStarted = false
  let isKilled = false
  let isClosed = false
  const blackholes = new Set<'own' | 'engine'>()

  function countUpgrade(): void {
    upgrades++
  }

  function blackhole(whose: 'own' | 'engine', on: boolean): void {
    if (on) blackholes.add(whose)
    else blackholes.delete(whose)
    streams.blackhole(blackholes.size > 0)
    faults.blackhole(blackholes.size > 0)
  }

  async function update(how?: 'reset'): Promise<void> {
    if (isStarted && !isKilled) return listener.open()
    frames.clear()
    return listener.close(how)
  }

  function stop(): Promise<void> {
    isStarted = false
    return update()
  }

  const handle: EngineOrigin = {
    id,
    get wsEndpoint() {
      return `ws://${host}:${listener.port}`
    },
    get connections() {
      return streams.count
    },
    get upgrades() {
      return upgrades
    },
    kill() {
      isKilled = true
      return update('reset')
    },
    async restart() {
      if (isClosed) throw new Error('the data engine is closed')
      isKilled = false
      await update()
    },
    delay: frames.delay,
    drop: frames.drop,
    duplicate: frames.duplicate,
    reorder: frames.reorder,
    forge: frames.forge,
    corrupt: frames.corrupt,
    blackhole: on => blackhole('own', on),
    refuse: faults.refuse,
    disconnect: streams.disconnect,
    leave() {
      isAdvertised = false
    },
    join() {
      isAdvertised = true
    },
  }

  return {
    handle,
    id,
    listener,
    get isAdvertised() {
      return isAdvertised
    },
    countUpgrade,
    publish(frame, report) {
      if (listener.isOpen) frames.send(frame, report)
    },
    send: streams.send,
    blackhole: on => blackhole('engine', on),
    start() {
      isStarted = true
      return update()
    },
    stop,
    close() {
      isClosed = true
      faults.clear()
      return stop()
    },
  }
}
