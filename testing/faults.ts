import { DataStreamsError } from '../core/errors.js'
import { describeOutcome, type Outcome } from './probe.js'

/** A rule that the tested object broke. */
export interface Fault {
  /** The name of the rule, from the tables of the documentation. */
  readonly rule: string
  /** What happened. */
  readonly message: string
  /** In which part of the test it happened. */
  readonly where: string
}

/** The tested object broke rules. `faults` has each rule once per part of the test. */
export class ConformanceError extends DataStreamsError {
  /** The broken rules, in the order in which they were found. */
  readonly faults: readonly Fault[]

  constructor(subject: string, faults: readonly Fault[]) {
    const lines = faults.map(({ rule, message, where }) => `  ${rule}: ${message} (${where})`)
    super(
      `${subject} broke ${faults.length === 1 ? 'a rule' : `${faults.length} rules`}:\n${lines.join('\n')}`,
      { code: 'CONFORMANCE' },
    )
    this.faults = faults
  }

  static {
    ConformanceError.prototype.name = 'ConformanceError'
  }
}

declare module '../core/errors.js' {
  interface ErrorClasses {
    /** An object that was tested with `sluice/testing` broke rules. */
    CONFORMANCE: ConformanceError
  }
}

/** Thrown where a part of a test can't go on, because a rule was broken. */
export class Stop extends Error {}

/** Collects the faults of one object. */
export class Findings {
  /** The part of the test that runs now. */
  where = ''
  readonly #subject: string
  readonly #faults = new Map<string, Fault>()

  constructor(subject: string) {
    this.#subject = subject
  }

  /** Adds a fault. A rule that was broken before is listed once. */
  add(rule: string, message: string): void {
    if (!this.#faults.has(rule)) this.#faults.set(rule, { rule, message, where: this.where })
  }

  /** Adds a fault unless the condition is true. */
  check(condition: boolean, rule: string, message: string): void {
    if (!condition) this.add(rule, message)
  }

  /** Adds a fault, and ends the part of the test. */
  stop(rule: string, message: string): never {
    this.add(rule, message)
    throw new Stop()
  }

  /** The value of a call that must resolve. Ends the part of the test if it does not. */
  valueOf<Value>(outcome: Outcome<Value>, rule: string, call: string): Value {
    if (outcome.kind === 'resolved') return outcome.value
    if (outcome.kind === 'thrown' || outcome.kind === 'returned') rule = 'promise'
    if (outcome.kind === 'pending') rule = 'time'
    return this.stop(rule, `${call} ${describeOutcome(outcome)}`)
  }

  /** Throws a ConformanceError if there are faults. */
  finish(): void {
    if (this.#faults.size > 0) throw new ConformanceError(this.#subject, [...this.#faults.values()])
  }
}
