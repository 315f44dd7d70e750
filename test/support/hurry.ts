import { afterEach } from '@jest/globals'

let end: (() => void) | undefined
afterEach(() => end?.())

/**
 * Makes timers and their clock run several times as fast until the test ends. A limit of a product
 * is as much shorter: it must be far from what the test needs.
 */
export function hurry(factor = 10): void {
  // The hurried clock never goes back.
  const from = globalThis.performance.now()
  end?.()
  const { setTimeout: start, setInterval: repeat, performance: clock } = globalThis
  const since = clock.now()
  const now = (): number => from + factor * (clock.now() - since)
  type Run = (...args: unknown[]) => void
  const replace = (timer: unknown, interval: unknown, performance: unknown): void =>
    void Object.defineProperties(globalThis, {
      setTimeout: { value: timer, configurable: true, writable: true },
      setInterval: { value: interval, configurable: true, writable: true },
      performance: { value: performance, configurable: true, writable: true },
    })
  replace(
    (run: Run, ms = 0, ...args: unknown[]) => start(run, ms / factor, ...args),
    (run: Run, ms = 0, ...args: unknown[]) => repeat(run, ms / factor, ...args),
    new Proxy(clock, {
      get(_, name) {
        if (name === 'now') return now
        // A library that is loaded meanwhile keeps the other functions.
        const value: unknown = Reflect.get(clock, name)
        return typeof value === 'function' ? value.bind(clock) : value
      },
    }),
  )
  end = () => {
    end = undefined
    replace(start, repeat, clock)
  }
}
