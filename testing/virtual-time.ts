import { setImmediate } from '../platform/globals.js'

/**
 * A time that passes only when a test says so. It replaces `setTimeout`, `setInterval`,
 * `performance`, `Date.now` and `AbortSignal.timeout` of the globals, so there is at most one in a
 * process.
 */
export interface VirtualTime {
  /** Milliseconds of the monotonic clock. */
  readonly now: number
  /** Milliseconds of Unix time. */
  readonly wall: number
  /** How many timers of the program are running. */
  readonly timers: number
  /** Where each running timer of the program was started, if `origins` was given. */
  readonly timerOrigins: readonly string[]
  /** Runs `happen` after so many milliseconds. It is no timer of the program. */
  outside(ms: number, happen: () => void): void
  /** Lets time pass. */
  pass(ms: number): Promise<void>
  /**
   * Lets time pass until the condition is true, for `ms` milliseconds at most. Returns whether it
   * is true. Time passes only while the program does nothing else.
   */
  until(condition: () => boolean, ms: number): Promise<boolean>
  /**
   * Suspends the process for a while. Afterwards, timers that are due run before events that have
   * arrived.
   */
  stop(ms: number): Promise<void>
  /** The machine sleeps for a while: the monotonic clock stands still. */
  sleep(ms: number): Promise<void>
  /** Restores the globals. */
  end(): void
}

/** Options of `startVirtualTime`. */
export interface VirtualTimeOptions {
  /** Resolves when the program has done everything that does not wait for a timer. */
  readonly settled?: () => Promise<void>
  /** Whether `timerOrigins` is filled. It makes timers slow. @default false */
  readonly origins?: boolean
  /**
   * Before `until` skips over a second, it waits so many real milliseconds. A module may be
   * loading, or a thread may be working. @default 0
   */
  readonly grace?: number
  /**
   * The most timers that one call of `pass` or `until` runs before it rejects. @default Infinity
   */
  readonly maxSteps?: number
}

interface Entry {
  due: number
  readonly order: number
  readonly isOutside: boolean
  readonly every: number | undefined
  readonly run: () => void
  readonly origin: string | undefined
}

/** Returns the line of the program that called `setTimeout` or `setInterval`. */
function findOrigin(): string {
  // The lines before it are the message, this function, `add`, and the replaced global.
  const line = (new Error().stack ?? '').split('\n')[4] ?? ''
  return line.trim().replace(/^at /, '')
}

/** Resolves in the next iteration of the event loop: all promises have called their callbacks. */
const nextIteration = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** The condition of `pass`. */
const never = (): boolean => false

/** Milliseconds from which on a skip counts as long. */
const FAR = 1000

const START = 1_700_000_000_000

/** Replaces the platform's clocks and timers until `end`. */
export function startVirtualTime({
  settled = nextIteration,
  origins = false,
  grace = 0,
  maxSteps = Number.POSITIVE_INFINITY,
}: VirtualTimeOptions = {}): VirtualTime {
  const real = {
    setTimeout,
    clearTimeout,
    setInterval,
    clearInterval,
    performance,
    now: Date.now,
    timeout: AbortSignal.timeout,
  }
  const entries = new Set<Entry>()
  let now = 0
  let slept = 0
  let order = 0

  function add(ms: unknown, run: () => void, isOutside: boolean, repeats: boolean): Entry {
    const wait = typeof ms === 'number' && ms >= 1 && ms <= 2 ** 31 - 1 ? ms : 1
    const every = repeats ? wait : undefined
    const origin = origins && !isOutside ? findOrigin() : undefined
    const entry: Entry = { due: now + wait, order: order++, isOutside, every, run, origin }
    entries.add(entry)
    const timer = Object.assign(entry, {
      ref: (): unknown => timer,
      unref: (): unknown => timer,
      hasRef: () => true,
      refresh(): unknown {
        entry.due = now + wait
        return timer
      },
      close: (): void => stopTimer(timer),
    })
    return timer
  }

  const start =
    (repeats: boolean) =>
    (task: (...given: unknown[]) => void, ms?: unknown, ...given: unknown[]): unknown =>
      add(ms, () => task(...given), false, repeats)
  const stopTimer = (entry: unknown): void => void entries.delete(entry as Entry)
  Object.assign(globalThis, {
    setTimeout: start(false),
    setInterval: start(true),
    clearTimeout: stopTimer,
    clearInterval: stopTimer,
  })
  Object.defineProperty(globalThis, 'performance', {
    configurable: true,
    writable: true,
    value: { now: () => now, timeOrigin: START, mark: () => undefined, measure: () => undefined },
  })
  Date.now = () => START + now + slept
  AbortSignal.timeout = ms => {
    const controller = new AbortController()
    const reason = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
    // It holds no process, so it is no timer that a program may leave.
    add(ms, () => controller.abort(reason), true, false)
    return controller.signal
  }

  function next(until: number): Entry | undefined {
    let first: Entry | undefined
    for (const entry of entries) {
      if (entry.due > until) continue
      if (first === undefined || isBefore(entry, first)) first = entry
    }
    return first
  }

  /** Of entries that are late, timers run first, as in Node's event loop. */
  function isBefore(one: Entry, other: Entry): boolean {
    const [due, otherDue] = [Math.max(now, one.due), Math.max(now, other.due)]
    if (due !== otherDue) return due < otherDue
    if (one.isOutside !== other.isOutside) return other.isOutside
    return one.due === other.due ? one.order < other.order : one.due < other.due
  }

  /** Waits in real time until the condition is true or a timer is due soon. */
  async function waitForOthers(condition: () => boolean, end: number): Promise<boolean> {
    const wait = next(end) === undefined ? 20 * grace : grace
    const start = real.performance.now()
    while (real.performance.now() - start < wait) {
      await new Promise(resolve => real.setTimeout(resolve, 1))
      await settled()
      if (condition() || !isFar(next(end))) return true
    }
    return false
  }

  const isFar = (entry: Entry | undefined): boolean => entry === undefined || entry.due > now + FAR

  async function until(condition: () => boolean, ms: number): Promise<boolean> {
    const end = now + ms
    let steps = 0
    await settled()
    while (!condition()) {
      if (grace > 0 && condition !== never && isFar(next(end))) {
        if (await waitForOthers(condition, end)) continue
      }
      if (++steps > maxSteps)
        throw new Error(`${maxSteps} timers ran within ${ms} ms, and each started another`)
      const entry = next(end)
      if (entry === undefined) {
        now = end
        return false
      }
      now = Math.max(now, entry.due)
      if (entry.every === undefined) entries.delete(entry)
      else entry.due = now + entry.every
      entry.run()
      await settled()
    }
    return true
  }

  const pass = async (ms: number): Promise<void> => void (await until(never, ms))

  return {
    get now() {
      return now
    },
    get wall() {
      return START + now + slept
    },
    get timers() {
      let count = 0
      for (const { isOutside } of entries) if (!isOutside) count++
      return count
    },
    get timerOrigins() {
      return Array.from(entries, entry => entry.origin).filter(origin => origin !== undefined)
    },
    outside: (ms, happen) => void add(ms, happen, true, false),
    pass,
    until,
    async stop(ms) {
      now += ms
      await pass(0)
    },
    async sleep(ms) {
      slept += ms
      await pass(0)
    },
    end() {
      const { performance: clock, now: wall, timeout, ...timers } = real
      AbortSignal.timeout = timeout
      Object.assign(globalThis, timers)
      Object.defineProperty(globalThis, 'performance', {
        configurable: true,
        writable: true,
        value: clock,
      })
      Date.now = wall
    },
  }
}
