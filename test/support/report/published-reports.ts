import { readVectors } from '../files.js'

/** A report that the service published, with its fields by an independent decoder. */
export interface PublishedReport {
  readonly feedID: string
  readonly version: string
  readonly configDigest: string
  readonly fullReport: string
  /** Integers in decimal. */
  readonly decoded: Readonly<Record<string, string>>
  /** The addresses that signed it, in the order of the signatures. */
  readonly signers: readonly string[]
}

export const publishedReports: readonly PublishedReport[] = readVectors<{
  reports: readonly PublishedReport[]
}>('published-reports.json').reports
