import { Report as SignedReport } from '../report/report.js'

/** The fields of a report that the service stores. */
export interface ReportEnvelope {
  /** `0x` and 64 hexadecimal digits. */
  feedID: string
  /** The signed bytes, `0x` and hexadecimal digits. */
  fullReport: string
  /** Earliest time for which the report is valid, in the feed's unit. */
  validFromTimestamp: number
  /** Time of the observations, in the feed's unit. */
  observationsTimestamp: number
}

/**
 * A report. With `Data` it is one that this library made, and its `decoded` is of that type; without, it is any object that
 * has the fields the service stores, such as one made by hand.
 */
export type Report<Data = never> = [Data] extends [never]
  ? ReportEnvelope & Partial<Omit<SignedReport, keyof ReportEnvelope>>
  : SignedReport<Data>

/** The class of reports, for `instanceof`; clients and streams make them. */
export const Report: typeof SignedReport = SignedReport

/**
 * A decoded report as text, one line per field; values are not scaled. The second argument is ignored: programs for the
 * official SDK give the version there, which the report itself has.
 */
export function formatReport<Given extends { readonly version: string }>(
  report: Given,
  _version?: string,
): string {
  const names = Object.keys(report)
  const width = Math.max(...names.map(name => name.length))
  return Object.entries(report)
    .map(([name, value]) => `${name.padEnd(width)}  ${String(value)}`)
    .join('\n')
}
