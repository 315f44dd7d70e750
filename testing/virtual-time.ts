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
  /**
   * Restores the globals. `pass` and `until` reject from now on: with the reason, if there is one.
   */
  end(reason?: Error): void
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
  /**
   * Whether the code that runs now belongs to the test. Other code keeps the real clocks and
   * timers. @default all code belongs to it
   */
  readonly isInside?: () => boolean
}

interface Entry {
  due: number
  readonly order: number
  readonly isOutside: boolean
  readonly every: number | undefined
  readonly run: () => void
  readonly origin: string | undefined
}

/** The line of a stack that so many functions have called one another below. */
const lineOf = ({ stack = '' }: Error, depth: number): string =>
  (stack.split('\n')[1 + depth] ?? '').trim().replace(/^at /, '')

/** Resolves in the next iteration of the event loop: all promises have called their callbacks. */
const nextIteration = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** The condition of `pass`. */
const never = (): boolean => false

/** Milliseconds from which on a skip counts as long. */
const FAR = 1000

const START = 1_700_000_000_000

/** Where the time was started that is installed. All copies of the library in a realm share it. */
const INSTALLED: unique symbol = Symbol.for('sluice.virtual-time')
/** The form of a timer that `util.promisify` returns. */
const PROMISIFIED: unique symbol = Symbol.for('nodejs.util.promisify.custom')

const names = ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval', 'performance'] as const

/**
 * Replaces the platform's clocks and timers until `end`. Throws if they are replaced already: each
 * would take the clocks and timers of the other for real ones.
 */
export function startVirtualTime({
  settled = nextIteration,
  origins = false,
  grace = 0,
  maxSteps = Number.POSITIVE_INFINITY,
  isInside = () => true,
}: VirtualTimeOptions = {}): VirtualTime {
  const mark = globalThis as { [INSTALLED]?: string }
  if (mark[INSTALLED] !== undefined)
    throw new Error(
      `virtual time is installed already, by ${mark[INSTALLED]}: that test has to end before this one begins`,
    )
  const descriptors = names.map(
    name => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const,
  )
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
  let ended: Error | undefined

  function add(ms: unknown, run: () => void, isOutside: boolean, repeats: boolean): Entry {
    const wait = typeof ms === 'number' && ms >= 1 && ms <= 2 ** 31 - 1 ? ms : 1
    const every = repeats ? wait : undefined
    // Below the caller are this function and the replaced global.
    const origin = origins && !isOutside ? lineOf(new Error(), 2) : undefined
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
      close: (): void => void entries.delete(timer),
    })
    return timer
  }

  type Starter = (task: (...given: unknown[]) => void, ms?: number, ...given: unknown[]) => unknown
  function starter(begin: Starter, repeats: boolean): unknown {
    const start: Starter = (task, ms, ...given) =>
      isInside()
        ? add(ms, () => task(...given), false, repeats)
        : begin.call(globalThis, task, ms, ...given)
    const { [PROMISIFIED]: promisified } = begin as {
      [PROMISIFIED]?: (ms?: number, value?: unknown, options?: unknown) => unknown
    }
    if (promisified === undefined) return start
    return Object.assign(start, {
      [PROMISIFIED]: (ms?: number, value?: unknown, options?: unknown): unknown =>
        isInside() && !repeats
          ? new Promise(resolve => add(ms, () => resolve(value), false, false))
          : promisified(ms, value, options),
    })
  }
  /** A timer that was started before this time, or outside the test, is one of the platform. */
  const stopper =
    (end: (timer: never) => void) =>
    (timer: unknown): void => {
      if (!entries.delete(timer as Entry)) end.call(globalThis, timer as never)
    }
  Object.assign(globalThis, {
    setTimeout: starter(real.setTimeout as Starter, false),
    setInterval: starter(real.setInterval as Starter, true),
    clearTimeout: stopper(real.clearTimeout),
    clearInterval: stopper(real.clearInterval),
  })
  const clock = {
    now: () => now,
    timeOrigin: START,
    mark: () => undefined,
    measure: () => undefined,
  }
  Object.defineProperty(globalThis, 'performance', {
    configurable: true,
    enumerable: true,
    get: () => (isInside() ? clock : real.performance),
  })
  Date.now = () => (isInside() ? START + now + slept : real.now.call(Date))
  AbortSignal.timeout = ms => {
    if (!isInside()) return real.timeout.call(AbortSignal, ms)
    const controller = new AbortController()
    const reason = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
    // It holds no process, so it is no timer that a program may leave.
    add(ms, () => controller.abort(reason), true, false)
    return controller.signal
  }
  mark[INSTALLED] = lineOf(new Error(), 1)

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
    // Waits of a millisecond are counted, and no time is measured: on a busy machine each of them
    // takes longer, and so does what is waited for.
    for (let waited = 0; waited < wait; waited++) {
      await new Promise(resolve => real.setTimeout(resolve, 1))
      await settle()
      if (condition() || !isFar(next(end))) return true
    }
    return false
  }

  /** Lets the program run on, and throws if the time has ended in the meantime. */
  async function settle(): Promise<void> {
    await settled()
    if (ended !== undefined) throw ended
  }

  const isFar = (entry: Entry | undefined): boolean => entry === undefined || entry.due > now + FAR

  async function until(condition: () => boolean, ms: number): Promise<boolean> {
    const end = now + ms
    let steps = 0
    await settle()
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
      await settle()
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
    end(reason = new Error('this virtual time has ended')) {
      if (ended !== undefined) return
      ended = reason
      AbortSignal.timeout = real.timeout
      Date.now = real.now
      // In a worker of the web they belong to the prototype.
      for (const [name, descriptor] of descriptors)
        if (descriptor === undefined) Reflect.deleteProperty(globalThis, name)
        else Object.defineProperty(globalThis, name, descriptor)
      delete mark[INSTALLED]
    },
  }
}
