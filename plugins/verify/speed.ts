import type { CurveLibraryChoice } from './curve-library.js'

/** The engines that there are. */
export type CurveLibraryName = Exclude<CurveLibraryChoice, 'auto'>

/** Reports whose signers were recovered, and how long that took. */
export interface Timed {
  readonly curveLibrary: CurveLibraryName | undefined
  readonly reports: number
  readonly ms: number
}

/** How fast reports are verified, as measured with those that came. */
export interface Speed {
  /** What recovers the signers; undefined before the first report. */
  readonly curveLibrary: CurveLibraryName | undefined
  /** In how many threads at most; 0 is the caller's. */
  readonly threads: number | undefined
  /** How many reports a second all threads together can do; undefined before it was measured. */
  readonly reportsPerSecond: number | undefined
  add(timed: Timed, threads: number): void
}

/** Measured reports after which the speed is known. */
const ENOUGH = 4
/** Measured reports that count; of more, older ones count half as much. */
const MOST = 256

/** Measures the speed; calls back once, when it is known. */
export function createSpeed(onKnown: () => void = () => undefined): Speed {
  let reports = 0
  let ms = 0
  let curveLibrary: CurveLibraryName | undefined
  let threads: number | undefined
  let isKnown = false

  return {
    get curveLibrary() {
      return curveLibrary
    },
    get threads() {
      return threads
    },
    get reportsPerSecond() {
      if (!isKnown || ms === 0) return undefined
      return Math.round((Math.max(1, threads ?? 1) * 1000 * reports) / ms)
    },
    add(timed, count) {
      curveLibrary = timed.curveLibrary ?? curveLibrary
      threads = count
      reports += timed.reports
      ms += timed.ms
      if (reports >= MOST) {
        reports /= 2
        ms /= 2
      }
      if (isKnown || reports < ENOUGH) return
      isKnown = true
      onKnown()
    },
  }
}
