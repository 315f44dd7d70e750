import type { Report } from './report.js'
import type { ReportReader } from './report-queue.js'

/** What an iteration over a stream needs of it. */
export interface ReportIteratorParts {
  readonly reader: ReportReader
  /** Sees to it that reports come. */
  start(): void
  /** Closes the stream. */
  close(): Promise<void>
}

/**
 * Iterates the reports of a stream, until it is closed; why it failed is thrown, once. Leaving the loop, by whatever way,
 * closes the stream. The report had last counts as consumed when the loop is left by `break` or `return`, and also when its
 * body throws, because JavaScript does not let us tell these apart: who wants a report again whose handling failed must not
 * rely on throwing there, but read with `read` and not ask for more. With the iterator's own `throw` it does not count.
 */
export function createReportIterator<Data>(
  parts: ReportIteratorParts,
): AsyncIterableIterator<Report<Data>> {
  const { reader } = parts
  let isOver = false

  function settle(report: Report | undefined): IteratorResult<Report<Data>, undefined> {
    if (report !== undefined) return { done: false, value: report as Report<Data> }
    isOver = true
    return { done: true, value: undefined }
  }

  function failed(error: unknown): IteratorResult<Report<Data>, undefined> {
    if (isOver) return { done: true, value: undefined }
    isOver = true
    throw error
  }

  const iterator: AsyncIterableIterator<Report<Data>> = {
    next() {
      if (isOver) return Promise.resolve(settle(undefined))
      parts.start()
      const report = reader.take()
      return report === undefined
        ? reader.wait().then(settle, failed)
        : Promise.resolve(settle(report))
    },
    async return(value) {
      // To ask for the next one is what makes the last one count; the stream closes, so nobody misses what is taken.
      if (!isOver) reader.take()
      isOver = true
      await parts.close()
      return { done: true, value }
    },
    async throw(error) {
      isOver = true
      await parts.close()
      throw error
    },
    [Symbol.asyncIterator]: () => iterator,
  }
  return iterator
}
