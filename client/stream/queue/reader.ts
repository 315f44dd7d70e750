import type { Report } from '../../../report/report.js'

/** Takes reports out of a queue. Several readers of one queue share its reports. */
export interface ReportReader {
  /** The next report that is queued. The reports this reader took before count as consumed. */
  take(): Report | undefined
  /** The next report to come, after `take` found none. Undefined when the queue was closed; rejects with its failure. */
  wait(): Promise<Report | undefined>
}

/** The readers of a queue. */
export interface Readers {
  create(): ReportReader
  /** How many wait for a report. */
  readonly waiting: number
  /** Gives a report to the reader that has waited longest; false where none waits. */
  give(report: Report): boolean
  /** The same for a report that its handlers consume and not the reader. */
  show(report: Report): void
  /** Ends all waits, now and later. Only the first failure counts. */
  end(failure: Error | undefined): void
}

interface Waiting {
  resolve(report: Report | undefined): void
  reject(error: Error): void
  /** The reports its reader has not finished with. */
  readonly taken: Report[]
}

/** Makes the readers of a queue from which `takeFirst` takes. */
export function createReaders(
  takeFirst: () => Report | undefined,
  consumed: (report: Report) => void,
): Readers {
  const waiting: Waiting[] = []
  let isEnded = false
  let failure: Error | undefined

  function endWaits(): void {
    for (const { resolve, reject } of waiting.splice(0)) {
      if (failure === undefined) resolve(undefined)
      else reject(failure)
    }
  }

  return {
    create() {
      const taken: Report[] = []
      return {
        take() {
          for (let report = taken.shift(); report !== undefined; report = taken.shift())
            consumed(report)
          const report = takeFirst()
          if (report !== undefined) taken.push(report)
          return report
        },
        wait: () =>
          new Promise((resolve, reject) => {
            waiting.push({ resolve, reject, taken })
            if (isEnded) endWaits()
          }),
      }
    },
    get waiting() {
      return waiting.length
    },
    give(report) {
      const first = waiting.shift()
      first?.taken.push(report)
      first?.resolve(report)
      return first !== undefined
    },
    show: report => waiting.shift()?.resolve(report),
    end(error) {
      isEnded = true
      failure ??= error
      endWaits()
    },
  }
}
