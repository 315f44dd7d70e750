export {
  type Candle,
  type CandleEvents,
  type CandleInterval,
  type CandleRange,
  candlesKey,
  intervalSeconds,
} from './candle.js'
export {
  type BaseFields,
  createDecodeReport,
  createDecoderTable,
  type Decoded,
  type DecodedBy,
  type Decoder,
  defineDecoder,
  type Fields,
} from './decoder.js'
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
  type ReportContext,
  ReportDecodingError,
  type ReportSignature,
  readContext,
  readHead,
} from './full-report.js'
export {
  createOverflowGaps,
  type Gap,
  type GapCause,
  type GapFilled,
  type OverflowGaps,
} from './gaps.js'
export { Intervals } from './intervals.js'
export { type JSONOf, toJSON } from './json.js'
export { formatPrice, type PriceFormat, parsePrice, type Rounding } from './price.js'
export { priceField } from './price-field.js'
export {
  type DecoderTable,
  isCurrent,
  markLatest,
  markSignedLater,
  markVerified,
  Report,
  type ReportJSON,
} from './report.js'
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
  findSignedLater,
  type SignedLater,
  type SignedReport,
  type Signing,
  SigningOrder,
  signingOf,
} from './signing-order.js'
export {
  ReportVerificationError,
  type ReportVerifier,
  reportVerifier,
  type VerificationFailure,
  type VerificationMetrics,
} from './verifier.js'
