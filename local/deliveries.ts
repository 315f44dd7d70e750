import type { PublishedReport } from './ledger.js'

/** A report's frame, handed unharmed to an open stream; whether the client has read it, the engine can't know. */
export interface Delivery {
  /** The origin's id. */
  readonly origin: string
  /** The stream's number, which the record of its upgrade has too. */
  readonly stream: number
  /** When it was written, in ms of the engine's clock. */
  readonly at: number
}

/** Which reports were written to which streams. */
export interface Deliveries {
  readonly note: (report: PublishedReport, origin: string, stream: number) => void
  /** The deliveries of a report, in the order they happened. */
  readonly of: (report: PublishedReport) => Delivery[]
}

/** No deliveries, yet. Those of a report are kept as long as the report is. */
export function createDeliveries(now: () => number): Deliveries {
  const byReport = new WeakMap<PublishedReport, Delivery[]>()

  function note(report: PublishedReport, origin: string, stream: number): void {
    const delivery = Object.freeze({ origin, stream, at: now() })
    const others = byReport.get(report)
    if (others === undefined) byReport.set(report, [delivery])
    else others.push(delivery)
  }

  return { note, of: report => [...(byReport.get(report) ?? [])] }
}
