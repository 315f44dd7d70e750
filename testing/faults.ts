import { DataStreamsError } from '../core/errors.js'

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

  /** Whether a rule was broken. */
  has(rule: string): boolean {
    return this.#faults.has(rule)
  }

  /** Adds a fault unless the condition is true. */
  check(condition: boolean, rule: string, message: string): void {
    if (!condition) this.add(rule, message)
  }

  /** Throws a ConformanceError if there are faults. */
  finish(): void {
    if (this.#faults.size > 0) throw new ConformanceError(this.#subject, [...this.#faults.values()])
  }
}
