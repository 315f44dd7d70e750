import { DataStreamsError, isStreamsError, ValidationError } from '../core/errors.js'
import type { Log } from '../core/log.js'
import type { DecodedBy, Decoder } from './decoder.js'
import { ReportDecodingError } from './errors.js'
import { feedVersion, parseKnownFeedID } from './feed-id.js'
import { decodingError, openBlob } from './full-report.js'
import type { DecoderTable, Report } from './report.js'
import type { ReportVerifier } from './verifier.js'

/** Makes a table of decoders by version. Of two with one version, the first is used. */
export function createDecoderTable<Each extends Decoder>(
  decoders: Iterable<Each>,
  log: Log = {},
  verifier?: ReportVerifier,
  failed?: () => void,
): DecoderTable<DecodedBy<Each>> {
  type Data = DecodedBy<Each>
  const table = new Map<number, Decoder<Data>>()
  for (const decoder of decoders as Iterable<Decoder<Data>>) {
    if (typeof decoder?.decode !== 'function' || !Number.isInteger(decoder.version)) {
      throw new ValidationError(
        'a decoder must have a version, a whole number, and a decode function',
      )
    }
    if (!table.has(decoder.version)) table.set(decoder.version, decoder)
  }

  function decode(fullReport: string, feedID: string): Data {
    try {
      const version = feedVersion(feedID)
      const decoder = table.get(version)
      if (decoder === undefined) {
        throw new ReportDecodingError(
          `report of feed ${feedID} is of version V${version}, for which the stack has no decoder`,
        )
      }
      const data = decoder.decode(openBlob(fullReport, feedID))
      log.debug?.(`report of feed ${feedID} decoded`)
      return data
    } catch (thrown) {
      const error = isStreamsError(thrown, 'DECODING')
        ? thrown
        : decodingError(feedID, 'its decoder threw', thrown)
      failed?.()
      log.error?.(`report decoding failed: ${error.message}`, { feedID })
      throw error
    }
  }

  function verify(report: Report): Promise<void> {
    return new Promise((resolve, reject) => {
      if (verifier === undefined) {
        throw new DataStreamsError(
          'report.verify needs the plugin verify in the stack that the report came up',
          { code: 'PLUGIN' },
        )
      }
      verifier.check(report, failure => (failure === undefined ? resolve() : reject(failure)))
    })
  }
  return { versions: [...table.keys()], decode, verify }
}

/** Makes a `decodeReport` of your own from decoders. */
export function createDecodeReport<Each extends Decoder>(
  decoders: Iterable<Each>,
): (fullReport: string, feedID: string) => DecodedBy<Each> {
  const table = createDecoderTable(decoders)
  return function decodeReport(fullReport, feedID) {
    const id = parseKnownFeedID(feedID)
    if (typeof fullReport !== 'string')
      throw decodingError(id, `it must be a string, not ${typeof fullReport}`)
    return table.decode(fullReport, id)
  }
}
