export {
  type BaseFields,
  type Decoded,
  type Decoder,
  defineDecoder,
  type Fields,
} from './decoder.js'
export { createDecodeReport, createDecoderTable } from './decoder-table.js'
export { ReportDecodingError } from './errors.js'
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
export { type DecoderTable, Report } from './report.js'
export { type ReportContext, type ReportSignature, readContext } from './report-context.js'
export {
  ReportVerificationError,
  type ReportVerifier,
  type VerificationFailure,
} from './verifier.js'
