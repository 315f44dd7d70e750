/** Requests that fail: which ones, how, and how often. */
export type FaultPlace = 'rest' | 'upgrade' | 'discovery'

export interface Fault {
  /** `discovery` is HEAD /, `rest` is every other request but an upgrade. */
  readonly on: FaultPlace
  /** A status to answer; or nothing at all; or a reset; or the usual answer, after `delay`. */
  readonly answer: number | 'hang' | 'reset' | 'usual'
  /** The number of requests that fail. By default all, until `stop()`. */
  readonly times?: number
  /** Only requests of this path, without the query. */
  readonly path?: string
  /** Only requests for this origin. */
  readonly origin?: string
  /** Milliseconds before the answer. */
  readonly delay?: number
  readonly headers?: Readonly<Record<string, string>>
  /** By default a JSON error. */
  readonly body?: string
}

export interface RunningFault {
  /** The requests that it met. */
  readonly hits: number
  stop(): void
}

export interface Faults {
  add(fault: Fault): RunningFault
  take(on: FaultPlace, path: string, origin: string): Fault | undefined
  clear(): void
}

export function makeFaults(): Faults {
  let running: { readonly fault: Fault; hits: number }[] = []
  return {
    add(fault) {
      const entry = { fault, hits: 0 }
      running.push(entry)
      return {
        get hits() {
          return entry.hits
        },
        stop() {
          running = running.filter(other => other !== entry)
        },
      }
    },
    take(on, path, origin) {
      const entry = running.find(
        ({ fault, hits }) =>
          fault.on === on &&
          (fault.path ?? path) === path &&
          (fault.origin ?? origin) === origin &&
          hits < (fault.times ?? Number.POSITIVE_INFINITY),
      )
      if (entry === undefined) return undefined
      entry.hits++
      return entry.fault
    },
    clear() {
      running = []
    },
  }
}
