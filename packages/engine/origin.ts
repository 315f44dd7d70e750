import type { EngineContext } from './context.js'
import { Faults } from './faults.js'
import { type FrameFaultSettings, FrameFaults } from './frame-faults.js'
import { createHTTPListener, host, type Listener } from './listener.js'
import { Service } from './service.js'
import { type Frame, Streams } from './streams.js'

/**
 * One origin of an engine, with its own listener and its own faults. The faults apply at once, also
 * to open streams. They outlast `kill` and the engine's `stop`, and do not affect other origins.
 * Faults of frames apply only to reports: frames of `engine.send` are sent unchanged.
 */
export interface EngineOrigin extends FrameFaultSettings {
  /** The origin's id, such as `001`. */
  readonly id: string
  /**
   * `ws://127.0.0.1:PORT` of this origin. If there is only one origin, this is the engine's own
   * endpoint.
   */
  readonly wsEndpoint: string
  /** How many of its streams are open. */
  readonly connections: number
  /**
   * How many upgrades were meant for this origin, answered or not. Upgrades that the front door got
   * for it while it was dead also count.
   */
  readonly upgrades: number
  /**
   * Kills the origin: it stops listening, and its connections are reset. Buffered and delayed
   * reports are lost.
   */
  kill(): Promise<void>
  /**
   * Restarts a killed origin on its port. If the engine is stopped, the origin restarts when the
   * engine starts.
   */
  restart(): Promise<void>
  /**
   * While on, the origin accepts connections and keeps them open, but answers nothing. When it is
   * switched off, everything that waited is answered.
   */
  blackhole(on: boolean): void
  /**
   * While on, the streams that are open at this call get only answers to pings. Streams that open
   * later get reports.
   */
  mute(on: boolean): void
  /**
   * Answers the next `times` upgrades with a status; without `times`, all upgrades. `undefined`
   * ends this.
   */
  refuse(status: number | undefined, times?: number): void
  /** Does the same as the engine's `disconnect`, but only for the streams of this origin. */
  disconnect(code?: number): number
  /**
   * Removes the origin from the list of origins. Its streams stay open, and upgrades that name it
   * still reach it.
   */
  leave(): void
  /** Puts the origin back on the list of origins. */
  join(): void
}

/** An origin, as the engine and its front door use it. */
export class Origin {
  readonly id: string
  readonly listener: Listener
  readonly streams: Streams
  /** The origin's public API. */
  readonly handle: EngineOrigin
  readonly #faults: Faults
  readonly #frames: FrameFaults
  readonly #blackholes = new Set<'own' | 'engine'>()
  /** How many upgrades were meant for this origin, including upgrades that did not reach it. */
  upgrades = 0
  #isStarted = false
  #isKilled = false
  #isClosed = false

  /** Creates an origin that is not started yet. */
  constructor(context: EngineContext, id: string, port: number, address?: string) {
    this.id = id
    this.#faults = new Faults(context.settings.clock, context.faults)
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
      context.settings.keepAlive,
    )
    this.handle = this.#createHandle(context)
  }

  /** Sends the frame of a report, through the origin's faults. */
  publish(frame: Frame): void {
    if (this.listener.isOpen) this.#frames.send(frame)
  }

  /**
   * Switches the engine's blackhole or the origin's own blackhole. The origin answers again when
   * both are off.
   */
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

  /** Closes the origin for good. */
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
