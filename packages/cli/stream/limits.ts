import { APIError } from 'sluice/client'
import { createLifetime, onAbort } from 'sluice/core'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { Report } from 'sluice/report'
import { inGroup, type Values } from '../command.js'
import { Deadline } from '../service/deadline.js'

const limits = {
  count: { is: 'whole', short: 'n', help: 'end after this many reports', min: 1 },
  for: { is: 'wait', help: 'end after this time: 10s, 5m, 2h' },
  timeout: {
    is: 'wait',
    help: 'fail if no report comes for this time: 5s, 1m',
  },
} as const
/** The options that end a stream before the user does. */
export const limitOptions: typeof limits = inGroup('The stream', limits)
type LimitOptions = Values<typeof limitOptions>

/** What ends a stream: a number of reports, a time, or a time without a report. */
export class StreamLimits {
  /** Aborts when a time is over, and when the user stops the command: for what comes first. */
  readonly signal: AbortSignal
  /**
   * Resolves when a limit is reached, and when the user stops the command. Rejects after a time
   * without a report.
   */
  readonly reached: Promise<void>
  readonly #deadline: Deadline
  #left: number
  #end: () => void = () => undefined

  /** The times begin now. */
  constructor({ count, for: length, timeout }: LimitOptions, stop: AbortSignal) {
    this.#deadline = new Deadline(timeout, 'no report came', stop)
    this.#left = count ?? Number.POSITIVE_INFINITY
    const { signal } = this.#deadline
    const life = createLifetime(signal)
    this.signal = life.signal
    this.reached = new Promise((resolve, reject) => {
      this.#end = resolve
      onAbort(signal, () => (stop.aborted ? resolve() : reject(signal.reason)))
    })
    // Nobody waits for the promise while the feeds are looked up.
    this.reached.catch(() => undefined)
    if (length === undefined) return
    const end = (): void => {
      this.#end()
      life.end(new APIError(`no stream began within ${length / 1000} s`, { code: 'API_TIMEOUT' }))
    }
    setTimeout(end, length).unref()
  }

  /**
   * Passes a report on, unless enough reports were. Acknowledges it once `show` has settled, so
   * that the reports after the last remain for the next stream with the same cursors.
   */
  pass(report: Report<DecodedReport>, show: Show): Promise<void> | undefined {
    if (this.#left === 0) return undefined
    this.#left--
    this.#deadline.restart()
    const isLast = this.#left === 0
    const shown = show(report)
    const finish = (): void => {
      report.acknowledge()
      if (isLast) this.#end()
    }
    return shown === undefined ? void finish() : shown.then(finish)
  }
}

type Show = (report: Report<DecodedReport>) => Promise<unknown> | undefined
