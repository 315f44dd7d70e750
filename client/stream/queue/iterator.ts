import type { Report } from '../../../report/report.js'
import type { ReportReader } from './queue.js'

/**
 * Iterates the reports of a stream until it is closed; its failure is thrown once. Leaving the loop in any way closes the
 * stream. The last report counts as consumed only when the next one is asked for: JavaScript does not distinguish a `break`
 * from a body that throws, and a report whose handling failed must come again.
 */
export function createReportIterator<Data>(
  reader: ReportReader,
  start: () => void,
  close: () => Promise<void>,
): AsyncIterableIterator<Report<Data>> {
  let isDone = false

  function resultOf(report: Report | undefined): IteratorResult<Report<Data>, undefined> {
    if (report !== undefined) return { done: false, value: report as Report<Data> }
    isDone = true
    return { done: true, value: undefined }
  }

  function failed(error: unknown): IteratorResult<Report<Data>, undefined> {
    if (isDone) return { done: true, value: undefined }
    isDone = true
    throw error
  }

  const iterator: AsyncIterableIterator<Report<Data>> = {
    next() {
      if (isDone) return Promise.resolve(resultOf(undefined))
      start()
      const report = reader.take()
      return report === undefined
        ? reader.wait().then(resultOf, failed)
        : Promise.resolve(resultOf(report))
    },
    async return(value) {
      isDone = true
      reader.leave()
      await close()
      return { done: true, value }
    },
    async throw(error) {
      isDone = true
      reader.leave()
      await close()
      throw error
    },
    [Symbol.asyncIterator]: () => iterator,
  }
  return iterator
}
