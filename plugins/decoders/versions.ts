import { createDecodeReport, type Decoder } from '../../report/decoder.js'
import { type V2, v2 } from './v2.js'
import { type V3, v3 } from './v3.js'
import { type V4, v4 } from './v4.js'
import { type V5, v5 } from './v5.js'
import { type V6, v6 } from './v6.js'
import { type V7, v7 } from './v7.js'
import { type V8, v8 } from './v8.js'
import { type V9, v9 } from './v9.js'
import { type V10, v10 } from './v10.js'
import { type V11, v11 } from './v11.js'
import { type V12, v12 } from './v12.js'
import { type V13, v13 } from './v13.js'
import { type V14, v14 } from './v14.js'

/**
 * A decoded report of any version that the presets can decode. `version` tells which version it is.
 */
export type DecodedReport = V2 | V3 | V4 | V5 | V6 | V7 | V8 | V9 | V10 | V11 | V12 | V13 | V14

/** The decoders of the presets, oldest version first. */
export const allDecoders: readonly Decoder<DecodedReport>[] = [
  v2,
  v3,
  v4,
  v5,
  v6,
  v7,
  v8,
  v9,
  v10,
  v11,
  v12,
  v13,
  v14,
]

/**
 * Decodes a report. The feed id determines its version. Throws ReportDecodingError if the bytes are
 * not a report of that feed, break a rule of the encoding, or have a version without a decoder.
 */
export const decodeReport: (fullReport: string, feedID: string) => DecodedReport =
  createDecodeReport(allDecoders)
