export {
  type BaseFields,
  type Decoded,
  type DecodedBy,
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
export {
  BLOB_DIGITS,
  type Blob,
  DIGITS as WORD_DIGITS,
  HEAD_WORDS,
  type Head,
  isSameBlob,
  readHead,
} from './full-report.js'
export type { Gap, GapCause, GapFilled } from './gap.js'
export { type JSONOf, toJSON } from './json.js'
export { createOverflowGaps, type OverflowGaps } from './overflow-gaps.js'
export { formatPrice, type PriceFormat, parsePrice, type Rounding } from './price.js'
export { type DecoderTable, Report, type ReportJSON } from './report.js'
export { type ReportContext, type ReportSignature, readContext } from './report-context.js'
export {
  type Interval,
  isIn,
  LONGEST_RANGE,
  provideSeen,
  SeenFeeds,
  type SeenScope,
  SeenTimes,
  seenIn,
  seenStreams,
} from './seen-times.js'
export {
  ReportVerificationError,
  type ReportVerifier,
  reportVerifier,
  type VerificationFailure,
  type VerificationMetrics,
} from './verifier.js'
