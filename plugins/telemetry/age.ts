import type { Sink } from '../../client/contract/plugin.js'
import type { StreamScope } from '../../client/contract/scope.js'
import { feedResolution } from '../../report/feed-id.js'
import type { Report } from '../../report/report.js'

/** Reports of a stream that are measured in one period, in milliseconds; of a faster stream, each n-th is. */
const MOST = 128
const PERIOD = 1000
/** What n is multiplied by, where they come faster than expected. */
const GROWTH = 8
const MAX_STEP = 2 ** 20

/** Measures the age of reports: of each, or of a sample. `addValue` is called with each age, in seconds. */
export function sampleAges(
  next: Sink,
  scope: StreamScope,
  addValue: (age: number, report: Report) => void,
): Sink {
  const { client } = scope
  let timer: ReturnType<typeof setInterval> | undefined
  let step = 1
  /** Reports up to the next one that is measured. */
  let left = 1
  let measured = 0
  /** Reports in this period. */
  let seen = 0

  function startPeriod(): void {
    step = Math.max(1, Math.ceil(seen / MOST))
    left = Math.min(left, step)
    measured = 0
    seen = 0
  }

  function measure(report: Report): void {
    if (timer === undefined) {
      timer = setInterval(startPeriod, PERIOD)
      timer.unref?.()
      scope.defer(() => clearInterval(timer))
    }
    const { observationsTimestamp: time, feedID } = report
    const observed = feedResolution(feedID) === 's' ? time : time / 1000
    // The clocks of the service and of this machine may differ.
    addValue(Math.max(0, client.now() / 1000 - observed), report)
    seen += step
    if (++measured % MOST === 0) step = Math.min(MAX_STEP, step * GROWTH)
    left = step
  }

  return function measureAge(report) {
    if (--left === 0) measure(report)
    next(report)
  }
}
