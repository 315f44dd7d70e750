import { Report as SignedReport } from '../report/report.js'

/** What the service stores of a report. */
export interface ReportRecord {
  feedID: string
  fullReport: string
  validFromTimestamp: number
  observationsTimestamp: number
}

/**
 * A report. With `Data` it is one that this library made, whose `decoded` is of that type; without, it is whatever has the
 * fields that the service stores, such as one that was made by hand.
 */
export type Report<Data = never> = [Data] extends [never]
  ? ReportRecord & Partial<Omit<SignedReport, keyof ReportRecord>>
  : SignedReport<Data>

export const Report: typeof SignedReport = SignedReport
