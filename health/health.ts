import type { Log } from '../core/log.js'
import {
  checkObject,
  checkText,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from '../core/options.js'

/**
 * How bad a problem is. `warning`: the service does its work. `unready`: it does not, and may again
 * by itself. `dead`: only a restart can help.
 */
export type Severity = 'warning' | 'unready' | 'dead'

/** Something that is wrong with a service at present. */
export interface Problem {
  /** The name of the cause. The metric, the readiness and the log line all have this name. */
  readonly cause: string
  /** How bad the problem is. */
  readonly severity: Severity
  /** What is wrong, in words. */
  readonly message: string
  /** When the problem began, in Unix milliseconds of this machine's clock. */
  readonly since: number
}

/** A number that a service shows to a monitoring system. */
export interface Measure {
  /** The name by OpenTelemetry's rules: words separated by dots. */
  readonly name: string
  /** A counter never falls. A gauge may rise and fall. */
  readonly kind: 'counter' | 'gauge'
  /** The UCUM code of the unit: `s`, or in braces the name of the counted thing. */
  readonly unit: string
  /** What the number counts or measures. */
  readonly description: string
  /** The name of the attribute that distinguishes the values. @default one value, without it */
  readonly attribute?: string
  /** Reads the value, or the value of each attribute; undefined while there is none. */
  readonly read: () => number | undefined | Iterable<readonly [attribute: string, value: number]>
}

/** Options of `Health`. */
export interface HealthOptions<Cause extends string> {
  /** The name of the service, such as `relay`. */
  readonly service: string
  /** Every cause that the service can have, with its severity. */
  readonly causes: Readonly<Record<Cause, Severity>>
  /** The numbers of the service. @default none */
  readonly measures?: readonly Measure[]
  /** Receives a line when a problem begins, and when it is over. @default nothing is logged */
  readonly log?: Log
}

const schema = {
  service: checkText,
  causes: (field, value) =>
    checkObject(field, value as object) as Readonly<Record<string, Severity>>,
  measures: withDefault([], unchecked<readonly Measure[]>),
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<HealthOptions<string>>

/** Milliseconds between two rounds of the checks. */
const CHECK_INTERVAL = 1000
/** How many characters of a message are kept. */
const MAX_MESSAGE = 400

/**
 * The health of a service: what is wrong with it now, in words, and its numbers. A relay, a
 * gateway, a worker, an enclave and a holder of a vault have one each.
 */
export class Health<Cause extends string = string> {
  /** The name of the service. */
  readonly service: string
  /** Every cause that the service can have, with its severity. */
  readonly causes: Readonly<Record<Cause, Severity>>
  /** The numbers of the service. */
  readonly measures: readonly Measure[]
  readonly #log: Log
  readonly #problems = new Map<string, Problem>()
  /** How often each cause has begun. */
  readonly #counts = new Map<string, number>()
  readonly #checks = new Set<() => void>()
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(given: HealthOptions<Cause>) {
    const { service, causes, measures, log } = readOptions('Health', given, schema)
    this.service = service
    this.causes = causes
    this.measures = measures
    this.#log = log
  }

  /** The problems at present, in the order in which they began. */
  get problems(): readonly Problem[] {
    return [...this.#problems.values()]
  }

  /** True unless a problem keeps the service from its work. */
  get isReady(): boolean {
    return this.problems.every(({ severity }) => severity === 'warning')
  }

  /** True unless only a restart can help. */
  get isAlive(): boolean {
    return this.problems.every(({ severity }) => severity !== 'dead')
  }

  /** How often a problem of this cause has begun. */
  countOf(cause: Cause): number {
    return this.#counts.get(cause) ?? 0
  }

  /**
   * Says whether there is a problem of this cause, and what is wrong. Without a message, the
   * problem is over. A problem that goes on keeps its beginning, and takes the new message.
   */
  set(cause: Cause, message?: string): void {
    const known = this.#problems.get(cause)
    if (message === undefined) {
      if (known === undefined) return
      this.#problems.delete(cause)
      const seconds = Math.round((Date.now() - known.since) / 1000)
      this.#log.info?.(`${this.service}: ${cause} is over, after ${seconds} s`, { cause })
      return
    }
    const severity = this.causes[cause]
    const words = message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message
    const since = known?.since ?? Date.now()
    this.#problems.set(cause, { cause, severity, message: words, since })
    if (known !== undefined) return
    this.#counts.set(cause, this.countOf(cause) + 1)
    const write = severity === 'warning' ? this.#log.warn : this.#log.error
    write?.(`${this.service}: ${cause}: ${words}`, { cause })
  }

  /** Calls back now, and then every second until `end`. */
  watch(check: () => void): void {
    this.#checks.add(check)
    check()
    this.#timer ??= setInterval(() => this.refresh(), CHECK_INTERVAL)
    this.#timer.unref?.()
  }

  /** Makes the checks now. */
  refresh(): void {
    for (const each of this.#checks) each()
  }

  /** Ends the checks. The problems stay as they are. Idempotent. */
  end(): void {
    clearInterval(this.#timer)
    this.#checks.clear()
  }
}
