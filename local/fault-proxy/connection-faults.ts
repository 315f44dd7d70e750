import type { EventDetails, ProxyEventName } from './log.js'
import type { Pipe } from './pipe.js'
import type { Direction, Directions, Rule } from './rules.js'
import { type ConnectionScript, nextPlace } from './script.js'
import { directionsOf, type Toxics } from './toxics.js'

/** The faults of one connection. A returned function ends the fault. `cause` is for the log. */
export interface ConnectionFaults {
  readonly reset: (cause?: EventDetails) => void
  readonly halfClose: (directions: Directions, cause?: EventDetails) => void
  readonly blackhole: (directions: Directions, cause?: EventDetails) => () => void
  readonly slow: (
    event: 'drip' | 'latency',
    directions: Directions,
    toxics: Partial<Toxics>,
    cause?: EventDetails,
  ) => () => void
  readonly corrupt: (directions: Directions, bits: number) => void
  /** Applies changed toxics. */
  readonly update: () => void
}

/** Applies the rules of a script to a connection. */
export interface RuleRunner {
  /** Applies the rules that strike at the opening, and starts the timers of those that strike by time. */
  readonly start: () => void
  readonly strike: (rule: Rule, cause: EventDetails) => void
  /** Stops the timers. */
  readonly clear: () => void
}

/** What the faults of a connection work on. */
export interface ConnectionFaultParts {
  readonly pipes: Readonly<Record<Direction, Pipe>>
  /** The toxics of this connection alone. */
  readonly toxics: Readonly<Record<Direction, Set<Partial<Toxics>>>>
  readonly note: (event: ProxyEventName, details: EventDetails) => void
  readonly isOpen: () => boolean
  /** Called when a blackhole ends. */
  readonly onRelease: () => void
}

/** The faults of a connection, except the reset of both its sockets. */
export function createConnectionFaults(
  parts: ConnectionFaultParts,
): Omit<ConnectionFaults, 'reset'> & { readonly isBlackholed: () => boolean } {
  const { pipes, toxics: toxicsOf, note, isOpen, onRelease } = parts
  let blackholes = 0

  /** Logs the start of a fault; the returned function logs its end. */
  function start(
    event: ProxyEventName,
    directions: Directions,
    cause: EventDetails | undefined,
    end: () => void,
  ): () => void {
    note(event, { ...cause, direction: directions })
    return function release() {
      if (isOpen()) note('release', { ...cause, direction: directions })
      end()
    }
  }

  function update(): void {
    for (const pipe of Object.values(pipes)) pipe.update()
  }

  return {
    halfClose(directions, cause) {
      for (const direction of directionsOf(directions)) {
        note('half-close', { ...cause, direction })
        pipes[direction].end()
      }
    },
    blackhole(directions, cause) {
      const releases = directionsOf(directions).map(direction => pipes[direction].hold())
      blackholes++
      return start('blackhole', directions, cause, function end() {
        blackholes--
        for (const release of releases) release()
        onRelease()
      })
    },
    slow(event, directions, toxics, cause) {
      // A copy, as sets hold an object once: two equal faults are two.
      const added = { ...toxics }
      for (const direction of directionsOf(directions)) toxicsOf[direction].add(added)
      update()
      return start(event, directions, cause, function end() {
        for (const direction of directionsOf(directions)) toxicsOf[direction].delete(added)
        update()
      })
    },
    corrupt(directions, bits) {
      for (const direction of directionsOf(directions)) pipes[direction].corruptNext(bits)
    },
    update,
    isBlackholed: () => blackholes > 0,
  }
}

/** Runs the rules of a script. */
export function createRuleRunner(script: ConnectionScript, faults: ConnectionFaults): RuleRunner {
  const timers = new Set<NodeJS.Timeout>()

  function after(ms: number, act: () => void): void {
    const timer = setTimeout(function due() {
      timers.delete(timer)
      act()
    }, ms)
    timers.add(timer)
  }

  /** Starts the fault of a rule. Returns how to end it, if it lasts. */
  function apply(rule: Rule, cause: EventDetails): (() => void) | undefined {
    const { direction, bytesPerSecond, latencyMs, jitterMs } = rule
    switch (rule.do) {
      case 'blackhole':
        return faults.blackhole(direction, cause)
      case 'drip':
        return faults.slow('drip', direction, { bytesPerSecond }, cause)
      case 'latency':
        return faults.slow('latency', direction, { latencyMs, jitterMs }, cause)
      case 'reset':
        faults.reset(cause)
        return undefined
      case 'half-close':
        faults.halfClose(direction, cause)
        return undefined
      case 'corrupt':
        faults.corrupt(direction, rule.bits)
        return undefined
    }
  }

  function strike(rule: Rule, cause: EventDetails): void {
    const release = apply(rule, cause)
    if (release !== undefined && rule.forMs !== Number.POSITIVE_INFINITY) after(rule.forMs, release)
  }

  /** Starts the timer of the first strike after `lastMs`, in ms since the opening. */
  function schedule(rule: Rule, lastMs: number): void {
    const ms = nextPlace(rule, lastMs)
    if (ms === undefined) return
    after(ms - Math.max(0, lastMs), function due() {
      if (script.decide(rule)) strike(rule, { rule: rule.index })
      schedule(rule, ms)
    })
  }

  return {
    start() {
      for (const rule of script.opening()) strike(rule, { rule: rule.index })
      for (const rule of script.timed) schedule(rule, -1)
    },
    strike,
    clear() {
      for (const timer of timers) clearTimeout(timer)
      timers.clear()
    },
  }
}
