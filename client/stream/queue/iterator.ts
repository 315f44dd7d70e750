import type { Report } from '../../../report/report.js'
import type { ReportReader } from './queue.js'

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
 * closes the stream. The report had last counts as consumed only when the next one is asked for: JavaScript does not tell a
 * `break` from a body that throws, and one whose handling failed must come again.
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
