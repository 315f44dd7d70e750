import { onAbort } from '../../core/async.js'
import type { Timing } from '../../core/clock.js'
import { DataStreamsError, ValidationError } from '../../core/errors.js'
import { createLifetime, type Lifetime } from '../../core/lifetime.js'
import {
  checkNumber,
  checkSignal,
  kindOf,
  MAX_TIMER,
  number,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { checkTime, inMilliseconds, parseFeedID } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'
import type { RequestOptions, Rest } from '../rest.js'
import { STORED_WITHIN } from './history.js'

/** Options of `getReportAt`. */
export interface MomentOptions extends RequestOptions {
  /**
   * Waits for a report that is not produced yet: true without a limit, or the most milliseconds.
   * @default false
   */
  readonly wait?: boolean | number
  /**
   * Milliseconds after which a report that the service does not have was never stored. Before that
   * time, it counts as not produced yet. @default 10000
   */
  readonly storedWithin?: number
}

const schema = {
  wait: withDefault<boolean | number>(false, (field, value) => {
    if (typeof value === 'boolean') return value
    if (typeof value === 'number') return checkNumber(field, value, { min: 0, max: MAX_TIMER })
    throw new ValidationError(
      `${field} must be true, false or a number of milliseconds, not ${kindOf(value)}`,
    )
  }),
  storedWithin: withDefault(STORED_WITHIN, number({ min: 0, max: MAX_TIMER })),
  signal: checkSignal,
} satisfies Schema<MomentOptions>

/** Why there is no report for a time. */
export type NoReportReason = 'not-yet' | 'missing'

/** The service has no report whose window holds the time. */
export class NoReportError extends DataStreamsError {
  /**
   * `not-yet`: the report may still come. `missing`: the service has a later report, and had enough
   * time to store this one, so it will not come.
   */
  readonly reason: NoReportReason
  /** In lower case. */
  readonly feedID: string
  /** The time, in the feed's unit. */
  readonly time: number
  /** The first report after the time, if the service has one. */
  declare readonly after: Report | undefined

  constructor(reason: NoReportReason, feedID: string, time: number, after: Report | undefined) {
    const next =
      after === undefined
        ? ''
        : `; the next report holds ${after.validFromTimestamp} to ${after.observationsTimestamp}`
    const what =
      reason === 'missing'
        ? `the service has stored no report that holds ${time}`
        : `the report that holds ${time} is not produced or not stored yet`
    super(`${what}, of feed ${feedID}${next}`, {
      code: 'NO_REPORT',
      isRetryable: reason === 'not-yet',
    })
    this.reason = reason
    this.feedID = feedID
    this.time = time
    // Loggers list the fields of an error, and need not show a whole report.
    Object.defineProperty(this, 'after', { value: after })
  }

  static {
    NoReportError.prototype.name = 'NoReportError'
  }
}

/** The code of this error. */
declare module '../../core/errors.js' {
  interface ErrorClasses {
    /** The service has no report whose window holds the time. */
    NO_REPORT: NoReportError
  }
}

/** Milliseconds by which a clock may be wrong before a time counts as one of the future. */
const CLOCK_TOLERANCE = 5000
/** Reports are looked for on one short page: the first of them nearly always holds the time. */
const LOOK_AT = 10
/** Milliseconds between two requests while the report is awaited. */
const POLL_FIRST = 500
/** The longest such pause, in milliseconds, for a feed that is silent. */
const POLL_LAST = 5000
/** A report arrives one to two seconds after its time, so the first request waits as long. */
const ARRIVES_AFTER = 1000

/** The present, and the timers that go by it. */
interface ReportTime {
  readonly now: () => number
  readonly timing: Timing
}

/** Waits for `ms` milliseconds of a clock. Rejects with the signal's reason if it aborts first. */
function sleep(ms: number, timing: Timing, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const cancel = timing.after(ms, () => {
      forget()
      resolve()
    })
    const forget = onAbort(signal, () => {
      cancel()
      reject(signal.reason)
    })
  })
}

/** Fetches the report whose window holds the time. */
export async function getReportAt<Data>(
  rest: Pick<Rest<Data>, 'getReportsPage'>,
  { now, timing }: ReportTime,
  client: Lifetime,
  id: string,
  time: number,
  given: MomentOptions | undefined,
): Promise<Report<Data>> {
  const feedID = parseFeedID(id)
  const { wait, storedWithin, signal } = readOptions('getReportAt', given, schema)
  checkTime('time', time, [feedID])
  const end = inMilliseconds(feedID, time)
  if (wait === false && end > now() + CLOCK_TOLERANCE)
    throw new ValidationError(
      `time must not be in the future without the option wait: ${time} is ${Math.round((end - now()) / 1000)} s ahead`,
    )
  const life = createLifetime(client, signal)
  const until = timing.monotonic() + (typeof wait === 'number' ? wait : 0)
  const isOver = (pause: number): boolean =>
    wait === false || (typeof wait === 'number' && timing.monotonic() + pause > until)
  try {
    for (let pause = POLL_FIRST; ; pause = Math.min(2 * pause, POLL_LAST)) {
      const early = wait === false ? 0 : end + ARRIVES_AFTER - now()
      if (early > 0) {
        if (isOver(early)) throw new NoReportError('not-yet', feedID, time, undefined)
        await sleep(Math.min(early, MAX_TIMER), timing, life.signal)
        continue
      }
      const page = await rest.getReportsPage(feedID, time, LOOK_AT, { signal: life.signal })
      const report = page.find(each => each.covers(time))
      if (report !== undefined) return report
      const [after] = page
      if (after !== undefined && !page.isPartial) {
        // A report of the hole may end as late as the hole, and is stored after its end.
        const holeEnd = inMilliseconds(feedID, after.validFromTimestamp - 1)
        if (now() - holeEnd >= storedWithin) throw new NoReportError('missing', feedID, time, after)
      }
      if (isOver(pause)) throw new NoReportError('not-yet', feedID, time, after)
      await sleep(pause, timing, life.signal)
    }
  } catch (error) {
    throw life.isOver ? life.reason : error
  } finally {
    life.end()
  }
}
