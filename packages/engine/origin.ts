import type { EngineContext } from './context.js'
import { Faults } from './faults.js'
import { FrameFaults, type FrameFaultSettings } from './frame-faults.js'
import { createHTTPListener, host, type Listener } from './listener.js'
import { Service } from './service.js'
import { type Frame, Streams } from './streams.js'

/**
 * One origin of an engine, with its own listener and its own faults. They apply at once, to open
 * streams too, outlast `kill` and the engine's `stop`, and do not affect other origins. Faults of
 * frames are for reports: frames of `engine.send` are sent unchanged.
 */
export interface EngineOrigin extends FrameFaultSettings {
  /** `001` */
  readonly id: string
  /** `ws://127.0.0.1:PORT` of this origin alone; the engine's own if there is only one origin. */
  readonly wsEndpoint: string
  /** How many of its streams are open. */
  readonly connections: number
  /**
   * How many upgrades were for it, answered or not, including those the front door had for it while
   * it was dead.
   */
  readonly upgrades: number
  /**
   * Kills the origin: nothing listens, connections are reset. Buffered and delayed reports are
   * lost.
   */
  kill(): Promise<void>
  /** Restarts a killed origin on its port; if the engine is stopped, at its start. */
  restart(): Promise<void>
  /**
   * While on, connections are accepted and stay open, and nothing is answered; afterwards,
   * everything is.
   */
  blackhole(on: boolean): void
  /**
   * While on, the streams that are open now get nothing but answers to pings; those that open later
   * get reports.
   */
  mute(on: boolean): void
  /** Answers upgrades with a status, all or the next `times`; undefined ends it. */
  refuse(status: number | undefined, times?: number): void
  /** As the engine's, for the streams of this origin. */
  disconnect(code?: number): number
  /**
   * Removes it from the list of origins; streams stay, and upgrades that name it still reach it.
   */
  leave(): void
  /** Puts it back on the list of origins. */
  join(): void
}

/** An origin, as the engine and its front door use it. */
export class Origin {
  readonly id: string
  readonly listener: Listener
  readonly streams: Streams
  /** The public face. */
  readonly handle: EngineOrigin
  readonly #faults: Faults
  readonly #frames: FrameFaults
  readonly #blackholes = new Set<'own' | 'engine'>()
  /** How many upgrades were for it, also those that did not reach it. */
  upgrades = 0
  #isStarted = false
  #isKilled = false
  #isClosed = false

  /** An origin that is not started. */
  constructor(context: EngineContext, id: string, port: number, address?: string) {
    this.id = id
    this.#faults = new Faults(context.faults)
    this.streams = new Streams(context, id)
    this.#frames = new FrameFaults(context, id, frame => this.streams.send(frame))
    const service = new Service(context, this.#faults)
    const { request, unreadable } = service
    this.listener = createHTTPListener(
      port,
      {
        ...{ request, unreadable },
        upgrade: (...upgrade) => {
          this.upgrades++
          service.openStream(this.streams, ...upgrade)
        },
      },
      address,
    )
    this.handle = this.#createHandle(context)
  }

  /** Sends the frame of a report, through the origin's faults. */
  publish(frame: Frame): void {
    if (this.listener.isOpen) this.#frames.send(frame)
  }

  /** The engine has a blackhole, and the origin has its own: it ends when both have ended. */
  blackhole(whose: 'own' | 'engine', on: boolean): void {
    if (on) this.#blackholes.add(whose)
    else this.#blackholes.delete(whose)
    this.streams.blackhole(this.#blackholes.size > 0)
    this.#faults.blackhole(this.#blackholes.size > 0)
  }

  start(): Promise<void> {
    this.#isStarted = true
    return this.#update()
  }

  stop(): Promise<void> {
    this.#isStarted = false
    return this.#update()
  }

  /** Ends it for good. */
  close(): Promise<void> {
    this.#isClosed = true
    this.#faults.clear()
    return this.stop()
  }

  async #update(how?: 'reset'): Promise<void> {
    if (this.#isStarted && !this.#isKilled) return this.listener.open()
    this.#frames.clear()
    return this.listener.close(how)
  }

  #createHandle({ listedOrigins }: EngineContext): EngineOrigin {
    const { id, listener, streams } = this
    const countUpgrades = (): number => this.upgrades
    return {
      ...this.#frames.settings,
      id,
      get wsEndpoint() {
        return `ws://${host}:${listener.port}`
      },
      get connections() {
        return streams.count
      },
      get upgrades() {
        return countUpgrades()
      },
      kill: () => {
        this.#isKilled = true
        return this.#update('reset')
      },
      restart: async () => {
        if (this.#isClosed) throw new Error('the data engine is closed')
        this.#isKilled = false
        await this.#update()
      },
      blackhole: on => this.blackhole('own', on),
      mute: on => streams.mute(on),
      refuse: (...how) => this.#faults.refuse(...how),
      disconnect: code => streams.disconnect(code),
      leave: () => void listedOrigins.delete(id),
      join: () => void listedOrigins.add(id),
    }
  }
}
