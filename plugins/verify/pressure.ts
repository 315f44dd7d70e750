import type { Hold, StreamScope } from '../../client/scope.js'
import { createOverflowGaps } from '../../report/overflow-gaps.js'
import type { Report } from '../../report/report.js'

/** Keeps the reports that wait from becoming too many. */
export interface Pressure {
  /** One more waits: at the limit the connections are held back. */
  add(): void
  /** One less: at half of it they go on. */
  remove(): void
  /** True where there is no end to what comes, since a connection can't be held back: the report is announced as missing. */
  sheds(report: Report): boolean
}

/** The pressure on a stream of which so many reports may wait. */
export function createPressure(scope: StreamScope, limit: number): Pressure {
  const gaps = createOverflowGaps(gap => scope.gap(gap))
  let waiting = 0
  let hold: Hold | undefined

  return {
    add() {
      waiting++
      if (waiting < limit || hold !== undefined) return
      scope.log.warn?.(`${waiting} reports wait to be verified`)
      hold = scope.hold()
    },
    remove() {
      waiting--
      if (hold === undefined || waiting > limit >> 1) return
      hold.release()
      hold = undefined
      gaps.announceAll()
    },
    sheds(report) {
      // What had been read before a connection was held back still comes.
      if (waiting < 2 * limit || hold?.leaks !== true) return false
      gaps.add(report)
      return true
    },
  }
}
