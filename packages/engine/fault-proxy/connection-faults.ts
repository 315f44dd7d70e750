import type { EventDetails, ProxyEventName } from './log.js'
import type { PipeContext, Pipes } from './pipe.js'
import type { Direction, Fault, Rule } from './rules.js'
import { type ConnectionScript, nextPlace } from './script.js'
import { directionsOf } from './toxics.js'

/** Applies a fault; the returned function ends one that lasts. `cause` is for the log. */
export type ApplyFault = (fault: Fault, cause?: EventDetails) => () => void

/** The targets of the faults of a connection. */
export interface FaultTargets {
  readonly pipes: Pipes
  readonly toxics: PipeContext['toxics']
  readonly note: (event: ProxyEventName, details: EventDetails) => void
  readonly reset: (cause?: EventDetails) => void
  readonly isOpen: () => boolean
  /** Called with true when the first blackhole starts, and with false when the last one ends. */
  readonly onBlackhole: (isOn: boolean) => void
}

/** The faults of one connection. */
export function createApplyFault(targets: FaultTargets): ApplyFault {
  const { pipes, toxics, note, reset, isOpen, onBlackhole } = targets
  let blackholes = 0

  /** Blackholes or slows the directions. Returns how to end it. */
  function start(fault: Fault, directions: readonly Direction[]): () => void {
    if (fault.do === 'blackhole') {
      const releases = directions.map(direction => pipes[direction].hold())
      onBlackhole(++blackholes > 0)
      return function end() {
        for (const release of releases) release()
        onBlackhole(--blackholes > 0)
      }
    }
    // A copy, as a set contains an object once: two equal faults are two.
    const added = { ...fault }
    for (const direction of directions) toxics[direction].add(added)
    pipes.update()
    return function end() {
      for (const direction of directions) toxics[direction].delete(added)
      pipes.update()
    }
  }

  function applyLasting(fault: Fault, cause: EventDetails | undefined): () => void {
    const { direction } = fault
    const end = start(fault, directionsOf(direction))
    note(fault.do, { ...cause, direction })
    return function release() {
      if (isOpen()) note('release', { ...cause, direction })
      end()
    }
  }

  return function apply(fault, cause) {
    const directions = directionsOf(fault.direction)
    switch (fault.do) {
      case 'reset':
        reset(cause)
        break
      case 'half-close':
        for (const direction of directions) {
          note('half-close', { ...cause, direction })
          pipes[direction].end()
        }
        break
      case 'corrupt':
        for (const direction of directions) pipes[direction].corruptNext(fault.bits ?? 1)
        break
      default:
        return applyLasting(fault, cause)
    }
    return () => {}
  }
}

/** Applies the rules of a script to a connection. */
export interface RuleRunner {
  /** Applies the rules that strike at the opening, and starts the timers of those that strike by time. */
  readonly start: () => void
  readonly strike: (rule: Rule, cause: EventDetails) => void
  readonly clear: () => void
}

/** Runs the rules of a script. */
export function createRuleRunner(script: ConnectionScript, apply: ApplyFault): RuleRunner {
  const timers = new Set<NodeJS.Timeout>()

  function after(ms: number, act: () => void): void {
    const timer = setTimeout(function due() {
      timers.delete(timer)
      act()
    }, ms)
    timers.add(timer)
  }

  function strike(rule: Rule, cause: EventDetails): void {
    const release = apply(rule, cause)
    if (rule.forMs !== Number.POSITIVE_INFINITY) after(rule.forMs, release)
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
