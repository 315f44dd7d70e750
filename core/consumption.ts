import { DataStreamsError } from './errors.js'
import type { Report } from './report.js'
import { createReportIterator } from './report-iterator.js'
import {
  createReportQueue,
  type ReportQueue,
  type ReportQueueOptions,
  type ReportReader,
} from './report-queue.js'

/** How a stream's reports are taken one by one, beside its events. */
export interface Consumption<Data> {
  /** Takes over a report whose handlers have run. */
  push(report: Report): void
  read(): Promise<Report<Data>>
  iterate(): AsyncIterableIterator<Report<Data>>
  /** Resolves when a report more would not overflow. */
  room(): Promise<void>
  /** After a failure what is queued can still be taken; without one nothing more is given. */
  end(failure?: Error): void
}

/** What reading a stream needs of it. */
export interface ConsumptionParts extends ReportQueueOptions {
  /** Connects the stream, unless it is connected. */
  start(): void
  close(): Promise<void>
  /** Why the stream was closed. */
  reason(): unknown
}

/** Makes the readers' edge of a stream. Its queue exists from the first reading or iteration on. */
export function createConsumption<Data>(parts: ConsumptionParts): Consumption<Data> {
  let queue: ReportQueue | undefined
  let reader: ReportReader | undefined
  let over: { readonly failure: Error | undefined } | undefined

  function createReader(): ReportReader {
    queue ??= createReportQueue(parts)
    if (over !== undefined) queue.end(over.failure)
    return queue.createReader()
  }

  return {
    push(report) {
      if (queue === undefined) parts.consumed(report)
      else queue.push(report)
    },
    async read() {
      reader ??= createReader()
      parts.start()
      const report = reader.take() ?? (await reader.wait())
      if (report !== undefined) return report as Report<Data>
      throw new DataStreamsError('the stream was closed', {
        code: 'CLOSED',
        cause: parts.reason(),
      })
    },
    iterate: () =>
      createReportIterator<Data>({
        reader: createReader(),
        start: parts.start,
        close: parts.close,
      }),
    room: () => (queue === undefined ? Promise.resolve() : queue.room()),
    end(failure) {
      over ??= { failure }
      queue?.end(failure)
    },
  }
}
