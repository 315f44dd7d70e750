import type { EngineContext } from './context.js'
import { createFaults } from './faults.js'
import { createFrameFaults, type FrameFaultSettings } from './frame-faults.js'
import { createHTTPListener, host, type Listener } from './listener.js'
import { createService } from './service.js'
import { createStreams, type Frame, type Streams } from './websocket-server.js'

/**
 * One origin of an engine, with its own listener and its own faults. They apply at once, to open streams too, outlast
 * `kill` and the engine's `stop`, and do not affect other origins. Faults of frames are for reports: frames of
 * `engine.send` are sent unchanged.
 */
export interface EngineOrigin extends FrameFaultSettings {
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
  /** While on, the streams that are open now get nothing but answers to pings; those that open later get reports. */
  mute(on: boolean): void
  /** Answers upgrades with a status, all or the next `times`; undefined ends it. */
  refuse(status: number | undefined, times?: number): void
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
  readonly listener: Listener
  readonly streams: Streams
  /** Counts an upgrade that did not reach it. */
  readonly countUpgrade: () => void
  /** Sends the frame of a report, through the origin's faults. */
  readonly publish: (frame: Frame) => void
  /** The engine's blackhole; the origin has its own. */
  readonly blackhole: (on: boolean) => void
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
  /** Ends it for good. */
  readonly close: () => Promise<void>
}

/** An origin that is not started. */
export function createOrigin(
  context: EngineContext,
  id: string,
  port: number,
  address: string = host,
): Origin {
  const { listedOrigins } = context
  const faults = createFaults(context.faults)
  const streams = createStreams(context, id)
  const frames = createFrameFaults(context, id, streams.send)
  const service = createService(context, faults)
  const openStream = service.upgradeTo(streams)
  const handlers = {
    ...service,
    upgrade(...upgrade: Parameters<typeof openStream>) {
      upgrades++
      openStream(...upgrade)
    },
  }
  const listener = createHTTPListener(port, handlers, address)
  let upgrades = 0
  let isStarted = false
  let isKilled = false
  let isClosed = false
  const blackholes = new Set<'own' | 'engine'>()

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
    ...frames.settings,
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
    blackhole: on => blackhole('own', on),
    mute: streams.mute,
    refuse: faults.refuse,
    disconnect: streams.disconnect,
    leave: () => void listedOrigins.delete(id),
    join: () => void listedOrigins.add(id),
  }

  return {
    handle,
    listener,
    streams,
    countUpgrade() {
      upgrades++
    },
    publish(frame) {
      if (listener.isOpen) frames.send(frame)
    },
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
