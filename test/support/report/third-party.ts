// The decoders of the presets and one of a third party, whose reports have strings.

import { allDecoders } from '../../../plugins/decoders/versions.js'
import { createDecodeReport, type Decoder, defineDecoder } from '../../../report/decoder.js'
import { THIRD_PARTY } from './report-arbitrary.js'

const thirdParty = defineDecoder({
  version: THIRD_PARTY,
  fields: {
    price: 'int192',
    symbol: 'string',
    time: 'uint64',
    venue: 'string',
    marketStatus: 'uint32',
    volume: 'int192',
  },
})

export const manyDecoders: readonly Decoder[] = [...allDecoders, thirdParty]

export const decodeAny: (fullReport: string, feedID: string) => unknown =
  createDecodeReport(manyDecoders)
