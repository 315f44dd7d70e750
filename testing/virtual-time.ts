// Time that passes when it is told to, for everything that runs in this test file.

/** The clocks and timers of the library, and those of the world around it. */
export interface VirtualTime {
  /** Milliseconds by the clock that only runs forward. */
  readonly now: number
  /** Milliseconds of Unix time. */
  readonly wall: number
  /** Timers that the library has running. */
  readonly timers: number
  /** Has something happen in the world outside, after so many milliseconds. */
  outside(ms: number, happen: () => void): void
  /** Lets time pass. */
  pass(ms: number): Promise<void>
  /** The process is stopped for a while: afterwards what is due is late, timers before what has come in. */
  stop(ms: number): Promise<void>
  /** The machine sleeps for a while: the clock that only runs forward stands still. */
  sleep(ms: number): Promise<void>
  /** Gives the platform its own time back. */
  end(): void
}

interface Entry {
  due: number
  readonly order: number
  readonly isOutside: boolean
  readonly every: number | undefined
  readonly run: () => void
}

const START = 1_700_000_000_000

/** Takes the place of the platform's clocks and timers until `end`. */
export function startVirtualTime(): VirtualTime {
  const real = { setTimeout, clearTimeout, setInterval, clearInterval, performance, now: Date.now }
  const { setImmediate: soon } = globalThis
  const entries = new Set<Entry>()
  let now = 0
  let slept = 0
  let order = 0

  function add(ms: unknown, run: () => void, isOutside: boolean, repeats: boolean): Entry {
    const wait = typeof ms === 'number' && ms >= 1 && ms <= 2 ** 31 - 1 ? ms : 1
    const every = repeats ? wait : undefined
    const entry: Entry = { due: now + wait, order: order++, isOutside, every, run }
    entries.add(entry)
    const timer = { ref: () => timer, unref: () => timer, hasRef: () => true }
    return Object.assign(entry, timer)
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
    value: { now: () => now },
  })
  Date.now = () => START + now + slept

  /** All that promises lead to has been done. */
  const settled = (): Promise<void> => new Promise(resolve => soon(resolve))

  function next(until: number): Entry | undefined {
    let first: Entry | undefined
    for (const entry of entries) {
      if (entry.due > until) continue
      if (first === undefined || isBefore(entry, first)) first = entry
    }
    return first
  }

  /** What is late is done timers first, as Node's event loop has it. */
  function isBefore(one: Entry, other: Entry): boolean {
    const [due, otherDue] = [Math.max(now, one.due), Math.max(now, other.due)]
    if (due !== otherDue) return due < otherDue
    if (one.isOutside !== other.isOutside) return other.isOutside
    return one.due === other.due ? one.order < other.order : one.due < other.due
  }

  async function pass(ms: number): Promise<void> {
    const end = now + ms
    await settled()
    for (let entry = next(end); entry !== undefined; entry = next(end)) {
      now = Math.max(now, entry.due)
      if (entry.every === undefined) entries.delete(entry)
      else entry.due = now + entry.every
      entry.run()
      await settled()
    }
    now = end
  }

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
    outside: (ms, happen) => void add(ms, happen, true, false),
    pass,
    async stop(ms) {
      now += ms
      await pass(0)
    },
    async sleep(ms) {
      slept += ms
      await pass(0)
    },
    end() {
      const { performance: clock, now: wall, ...timers } = real
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
