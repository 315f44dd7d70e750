import { jsonAnswer, writeRawAnswer } from './answer.js'
import type { Deliveries } from './deliveries.js'
import { createFaults, type Faults } from './faults.js'
import type { Forgery } from './forge.js'
import { createFrameFaults } from './frame-faults.js'
import type { PublishedReport } from './ledger.js'
import { createListener, host, type Listener } from './listener.js'
import { createService, type ServiceParts } from './service.js'
import { createStreams, type Frame, type StreamsOptions } from './websocket-server.js'

/**
 * One origin of an engine, with its own listener and its own faults. They take effect at once, on open streams too,
 * outlast `kill` and the engine's `stop`, and say nothing about the other origins. Those of frames are for reports:
 * what `engine.send` sends goes out as it is.
 */
export interface EngineOrigin {
  /** `001` */
  readonly id: string
  /** `ws://127.0.0.1:PORT` of this origin alone; the engine's own if there is but one origin. */
  readonly wsEndpoint: string
  /** How many of its streams are open. */
  readonly connections: number
  /** How many upgrades have come to it, answered or not, with those the front door had for it while it was dead. */
  readonly dials: number
  /** Takes the origin away: nothing listens, connections are reset. What was held back or delayed is lost. */
  kill(): Promise<void>
  /** Brings a killed origin back on its port; with the engine, if that is stopped. */
  restart(): Promise<void>
  /** While on, connections are accepted and stay open, nothing is answered; afterwards what was held back goes out. */
  blackhole(on: boolean): void
  /** Answers upgrades with a status, all or so many of them; undefined ends it. */
  refuse(status: number | undefined, times?: number): void
  /** Sends reports so many milliseconds later, in their order; 0 ends it, and what was late goes out. */
  delay(ms: number): void
  /** Leaves reports out: that share of them, 0 to 1, or those the function picks. */
  drop(rate: number | ((report: PublishedReport) => boolean)): void
  /** Sends that share of reports, 0 to 1, twice. */
  duplicate(rate: number): void
  /**
   * Holds so many frames back and sends them in another order, none more than so many places from its own; 0 ends it,
   * and what was held back goes out.
   */
  reorder(depth: number): void
  /** Forges reports, all or that share of them, 0 to 1; undefined ends it. What it sends is no delivery of the report. */
  forge(how: Forgery | undefined, rate?: number): void
  /** Changes one to four neighbouring bytes of that share of reports, 0 to 1; what goes out still is a WebSocket frame. */
  corrupt(rate: number): void
  /** As the engine's, for the streams of this origin. */
  disconnect(code?: number): number
  /** Takes it off the list of origins; streams stay, and it still is there for those who name it. */
  leave(): void
  /** Puts it back on the list of origins. */
  join(): void
}

/** An origin, as the engine and its front door see it. */
export interface Origin {
  readonly handle: EngineOrigin
  readonly id: string
  readonly listener: Listener
  readonly isAdvertised: boolean
  /** Counts a dial that didn't get to it. */
  readonly missed: () => void
  /** Sends a report's frame, through the origin's faults. */
  readonly publish: (frame: Frame, report: PublishedReport) => void
  /** Sends a frame as it is. Returns how many subscribers there were. */
  readonly send: (frame: Frame) => number
  /** The engine's blackhole, beside its own. */
  readonly blackhole: (on: boolean) => void
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
  /** Ends it for good. */
  readonly close: () => Promise<void>
}

/** What an origin is made of. */
export interface OriginParts {
  readonly id: string
  readonly port: number
  readonly seed: number
  readonly service: Omit<ServiceParts, 'faults'>
  /** The engine's faults: their failures are for all origins. */
  readonly faults: Faults
  readonly streams: Omit<StreamsOptions, 'headers' | 'onSent' | 'refuse'>
  readonly deliveries: Deliveries
  /** The frame of a report, forged. */
  readonly forged: (report: PublishedReport, how: Forgery) => Frame
}

/** An origin that isn't started. */
export function createOrigin(parts: OriginParts): Origin {
  const { id, port, seed, deliveries } = parts
  const { headers } = parts.service
  const faults = createFaults(parts.faults)
  const streams = createStreams({
    ...parts.streams,
    headers,
    onSent: (report, stream) => deliveries.note(report, id, stream),
    refuse: (socket, message) => writeRawAnswer(socket, jsonAnswer({ message }, 400, headers())),
  })
  const frames = createFrameFaults(seed, `origin ${id}`, streams.send, parts.forged)
  const service = createService({ ...parts.service, faults })
  const upgrade = service.upgradeTo(streams)
  const listener = createListener(port, {
    ...service,
    upgrade(request, socket, head) {
      dials++
      upgrade(request, socket, head)
    },
  })

  let dials = 0
  let isAdvertised = true
  let isStarted = false
  let isKilled = false
  let isClosed = false
  const holes = { own: false, engine: false }

  function updateHoles(change: Partial<typeof holes>): void {
    Object.assign(holes, change)
    const on = holes.own || holes.engine
    streams.hold(on)
    faults.blackhole(on)
  }

  async function update(how?: 'reset'): Promise<void> {
    if (isStarted && !isKilled) return listener.open()
    frames.clear()
    return listener.close(how)
  }

  function start(): Promise<void> {
    isStarted = true
    return update()
  }

  function stop(): Promise<void> {
    isStarted = false
    return update()
  }

  return {
    handle: {
      id,
      get wsEndpoint() {
        return `ws://${host}:${listener.port}`
      },
      get connections() {
        return streams.count
      },
      get dials() {
        return dials
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
      blackhole: on => updateHoles({ own: on }),
      refuse: faults.refuse,
      delay: frames.delay,
      drop: frames.drop,
      duplicate: frames.duplicate,
      reorder: frames.reorder,
      forge: frames.forge,
      corrupt: frames.corrupt,
      disconnect: streams.disconnect,
      leave() {
        isAdvertised = false
      },
      join() {
        isAdvertised = true
      },
    },
    id,
    listener,
    get isAdvertised() {
      return isAdvertised
    },
    missed() {
      dials++
    },
    publish(frame, report) {
      if (listener.isOpen) frames.send(frame, report)
    },
    send: streams.send,
    blackhole: on => updateHoles({ engine: on }),
    start,
    stop,
    close() {
      isClosed = true
      faults.clear()
      return stop()
    },
  }
}
