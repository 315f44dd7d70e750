export {
  type BaseFields,
  type Decoded,
  type Decoder,
  defineDecoder,
  type Fields,
} from './decoder.js'
export { createDecodeReport, createDecoderTable, type DecoderTable } from './decoder-table.js'
export { ReportDecodingError, ReportVerificationError, type VerificationFailure } from './errors.js'
export {
  feedResolution,
  feedVersion,
  getReportVersion,
  isFeedID,
  parseFeedID,
  parseFeedIDs,
} from './feed-id.js'
export type { FieldType } from './field.js'
export type { Blob } from './full-report.js'
export { Report } from './report.js'
export { type ReportContext, type ReportSignature, readContext } from './report-context.js'
export type { ReportVerifier } from './verifier.js'
