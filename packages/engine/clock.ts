import realTimers from 'node:timers'
import timers from 'node:timers/promises'
import { type Clock, MAX_TIMER, ValidationError } from 'sluice/core'

// These stay real. They are read here, because the fake timers of node:test replace the functions
// of that module.
/** Resolves after the sockets had a turn. */
export const nextTurn: () => Promise<void> = timers.setImmediate
/** Resolves after `ms` real milliseconds. */
export const sleep: (ms: number) => Promise<void> = timers.setTimeout

// The same holds for these.
const { setTimeout: setReal, clearTimeout: clearReal } = realTimers
/** Calls `run` after `ms` real milliseconds. The returned function cancels the call. */
export function afterReal(ms: number, run: () => void): () => void {
  const timer = setReal(run, ms)
  timer.unref()
  return () => clearReal(timer)
}

interface ManualTimer {
  readonly at: number
  readonly run: () => void
}

/** A clock that stands still until it is advanced. */
class ManualClock implements Clock {
  readonly Date: Clock['Date'] = { now: () => this.#now }
  readonly #timers = new Set<ManualTimer>()
  #now: number
  /** Settles when the advances so far have ended. */
  #advanced: Promise<void> = Promise.resolve()

  constructor(now: number) {
    this.#now = now
  }

  /** Treats milliseconds as Node does: the delay is whole and at least 1. */
  setTimeout(run: () => void, ms: number): ManualTimer {
    const timer = { at: this.#now + Math.max(1, Math.trunc(ms)), run }
    this.#timers.add(timer)
    return timer
  }

  clearTimeout(timer: ManualTimer): void {
    this.#timers.delete(timer)
  }

  /**
   * Moves the clock to the time of each due timer, and at last to `ms` from now. `settle` is
   * awaited after each timer. Several calls run one after the other.
   */
  advance(ms: number, settle: () => Promise<void>): Promise<void> {
    const advanced = this.#advanced.then(() => this.#advanceTo(this.#now + ms, settle))
    this.#advanced = advanced.catch(() => {})
    return advanced
  }

  async #advanceTo(end: number, settle: () => Promise<void>): Promise<void> {
    for (let due = this.#next(end); due !== undefined; due = this.#next(end)) {
      this.#now = due.at
      this.#timers.delete(due)
      due.run()
      await settle()
    }
    this.#now = end
  }

  /** The first timer that is due by `end`. Timers of the same time are due in their order. */
  #next(end: number): ManualTimer | undefined {
    let first: ManualTimer | undefined
    for (const timer of this.#timers)
      if (timer.at <= end && (first === undefined || timer.at < first.at)) first = timer
    return first
  }
}

/**
 * A clock that began at a time of its own and runs at a speed of its own. Its timers run one after
 * the other, each at its own time, and `settle` is awaited in between. The clock never shows a time
 * after that of a timer that has not run: if the machine is slow, the clock is slow, too.
 */
export class ScaledClock implements Clock {
  readonly Date: Clock['Date'] = { now: () => this.#now() }
  /** Resolves when what the timers have done has been noticed. */
  settle: () => Promise<void> = nextTurn
  readonly #timers = new Set<ManualTimer>()
  /** The clock's time at `#since` of `performance.now`. */
  #base: number
  #since: number
  #speed: number
  #isPaused: boolean
  /** How many waits of clients hold the clock. */
  #holds = 0
  /** The time of the timers that run. */
  #shown: number | undefined
  #running: Promise<void> | undefined
  #wake: ReturnType<typeof setTimeout> | undefined

  constructor(start: number, speed: number, isPaused: boolean) {
    this.#base = start
    this.#since = performance.now()
    this.#speed = speed
    this.#isPaused = isPaused
  }

  get speed(): number {
    return this.#speed
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  readonly setTimeout = (run: () => void, ms: number): ManualTimer => {
    const timer = { at: this.#now() + Math.max(0, ms), run }
    this.#timers.add(timer)
    this.#arm()
    return timer
  }

  readonly clearTimeout = (timer: unknown): void => {
    this.#timers.delete(timer as ManualTimer)
  }

  /** The clock is not faster than real time until the returned function is called. */
  readonly hold = (): (() => void) => {
    let isHeld = true
    this.#addHolds(1)
    return () => {
      if (isHeld) this.#addHolds(-1)
      isHeld = false
    }
  }

  /** Changes the speed from now on, or stops the clock, or lets it go on. */
  set({
    speed = this.#speed,
    isPaused = this.#isPaused,
  }: {
    readonly speed?: number
    readonly isPaused?: boolean
  }): void {
    this.#base = this.#now()
    this.#since = performance.now()
    this.#speed = speed
    this.#isPaused = isPaused
    this.#arm()
  }

  /** Moves a paused clock to a later time. Timers that become due run, in order. */
  async moveTo(time: number): Promise<void> {
    await this.#run(() => time)
    this.#base = Math.max(this.#base, time)
    this.#since = performance.now()
  }

  /** Ends all timers. */
  end(): void {
    clearTimeout(this.#wake)
    this.#timers.clear()
    this.#isPaused = true
  }

  get #rate(): number {
    return this.#holds > 0 ? Math.min(1, this.#speed) : this.#speed
  }

  #addHolds(count: number): void {
    if (this.#speed <= 1 || (this.#holds > 0 && this.#holds + count > 0)) {
      this.#holds += count
      return
    }
    this.#base = this.#now()
    this.#since = performance.now()
    this.#holds += count
    this.#arm()
  }

  #now(): number {
    return this.#shown ?? Math.min(this.#planned(), this.#next()?.at ?? Number.POSITIVE_INFINITY)
  }

  /** The time at which the clock would be on a machine that is fast enough. */
  #planned(): number {
    if (this.#isPaused) return this.#base
    return this.#base + this.#rate * (performance.now() - this.#since)
  }

  #next(): ManualTimer | undefined {
    let first: ManualTimer | undefined
    for (const timer of this.#timers) if (first === undefined || timer.at < first.at) first = timer
    return first
  }

  #arm(): void {
    if (this.#running !== undefined) return
    clearTimeout(this.#wake)
    const next = this.#isPaused ? undefined : this.#next()
    if (next === undefined) return
    const delay = Math.max(0, (next.at - this.#planned()) / this.#rate)
    this.#wake = setTimeout(
      () => {
        void this.#run(() => (this.#isPaused ? Number.NEGATIVE_INFINITY : this.#planned()))
      },
      Math.min(delay, MAX_TIMER),
    )
  }

  /** Runs the timers that are due, after those that run already. */
  #run(time: () => number): Promise<void> {
    clearTimeout(this.#wake)
    const before = this.#running?.catch(() => undefined) ?? Promise.resolve()
    // The timers begin later, so a timer that sets another one finds the clock running.
    const running = before
      .then(() => this.#runUntil(time))
      .finally(() => {
        if (this.#running !== running) return
        this.#running = undefined
        this.#arm()
      })
    this.#running = running
    return running
  }

  async #runUntil(time: () => number): Promise<void> {
    for (let next = this.#next(); next !== undefined && next.at <= time(); next = this.#next()) {
      this.#shown = next.at
      this.#timers.delete(next)
      try {
        next.run()
        // Timers of the same time run together.
        if (this.#next()?.at !== next.at) await this.settle()
      } finally {
        this.#base = Math.max(this.#base, this.#isPaused ? next.at : Number.NEGATIVE_INFINITY)
        this.#shown = undefined
      }
    }
  }
}

/** What an engine's time depends on. */
interface ClockSettings {
  readonly clock: Clock | 'manual'
  /** Tells the time in place of the clock. */
  readonly now: (() => number) | undefined
  /** Whether a pending timer keeps the process alive. */
  readonly keepAlive: boolean
}

/** The time and the timers of an engine. */
export class EngineClock {
  /** The time, in ms since 1970. */
  readonly now: () => number
  readonly #clock: Clock
  readonly #keepAlive: boolean

  constructor({ clock, now, keepAlive }: ClockSettings) {
    const used = clock === 'manual' ? new ManualClock(now?.() ?? Date.now()) : clock
    const isOwn = now === undefined || clock === 'manual'
    this.#clock = used
    this.#keepAlive = keepAlive
    this.now = isOwn ? () => used.Date.now() : now
  }

  /**
   * Identifies the timers that are in use. It changes when a test installs or removes fake timers.
   */
  get timers(): unknown {
    return this.#clock.setTimeout
  }

  /** Calls `run` after `ms` milliseconds. The returned function cancels the call. */
  after(ms: number, run: () => void): () => void {
    const clock = this.#clock
    // Fake timers can't cancel a real timer, nor real timers a fake one.
    const clear = clock.clearTimeout
    const timer = clock.setTimeout(run, ms) as { unref?(): void } | undefined
    if (!this.#keepAlive) timer?.unref?.()
    return () => clear.call(clock, timer)
  }

  /** Advances a manual clock. `settle` is awaited after each of its timers. */
  advance(ms: number, settle: () => Promise<void>): Promise<void> {
    if (this.#clock instanceof ManualClock) return this.#clock.advance(ms, settle)
    throw new ValidationError(
      "advance: the engine's clock advances by itself; start the engine with clock: 'manual'",
    )
  }
}
