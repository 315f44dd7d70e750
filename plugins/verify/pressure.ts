import type { StreamScope } from '../../client/scope.js'
import { createOverflowGaps } from '../../report/overflow-gaps.js'
import type { Report } from '../../report/report.js'

/** Bounds how many reports wait. */
export interface Pressure {
  /** One more waits: at the limit the connections are paused. */
  add(): void
  /** One less waits: at half of the limit the connections resume. */
  remove(): void
  /** True where the report must be dropped, since a connection can't be paused: its gap is announced. */
  sheds(report: Report): boolean
}

/** Makes the pressure on a stream of which so many reports may wait. */
export function createPressure(scope: StreamScope, limit: number): Pressure {
  const gaps = createOverflowGaps(gap => scope.events.emit('gap', gap))
  let waiting = 0
  let pause: ReturnType<StreamScope['flow']['pause']> | undefined

  return {
    add() {
      waiting++
      if (waiting < limit || pause !== undefined) return
      scope.log.warn?.(`${waiting} reports wait to be verified`)
      pause = scope.flow.pause()
    },
    remove() {
      waiting--
      if (pause === undefined || waiting > limit >> 1) return
      pause.resume()
      pause = undefined
      gaps.announceAll()
    },
    sheds(report) {
      // What was read before a connection was paused still comes.
      if (waiting < 2 * limit || pause?.leaks !== true) return false
      gaps.add(report)
      return true
    },
  }
}
