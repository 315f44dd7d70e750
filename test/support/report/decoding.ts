import { expect } from '@jest/globals'
import { type AbiParameter, encodeAbiParameters } from 'viem'
import { createDecodeReport, defineDecoder, type Fields } from '../../../report/decoder.js'
import {
  encodeOuter,
  encodeReport,
  envelopeFrom,
  feedIDOf,
  type Hex,
  headFields,
  noSignatures,
  parseFields,
  type Resolution,
} from './report-arbitrary.js'

export function compiles<_Claim extends true>(): void {}

export const feed = (version: number, resolution: Resolution = 's'): Hex =>
  feedIDOf(version, resolution, 0xfeedn)

export const headValues = (feedID: Hex): readonly unknown[] => [feedID, 1, 2, 3n, 4n, 5]

/** A report of version 42 with fields such as `int192 price`. */
export function report42(list: string, ...values: unknown[]): Hex {
  const feedID = feed(42)
  return encodeReport(
    [...headFields('s'), ...parseFields(list)],
    [...headValues(feedID), ...values],
    envelopeFrom(42, 3),
  )
}

/** Decodes one word as a field of a type; throws where it is rejected. */
export function readWord(type: string, word: bigint): unknown {
  const decode = createDecodeReport([
    defineDecoder({ version: 42, fields: { field: type } as Fields }),
  ])
  const data = decode(report42('uint256 field', BigInt.asUintN(256, word)), feed(42))
  return (data as { field?: unknown }).field
}

/** A blob that ends in words of ours, in a report without signatures. */
export function reportOfWords(feedID: Hex, words: readonly (bigint | string)[]): Hex {
  const head = headFields('s') as readonly AbiParameter[]
  const digits = words.map(word =>
    typeof word === 'string' ? word.padEnd(64, '0') : word.toString(16).padStart(64, '0'),
  )
  return encodeOuter(
    `${encodeAbiParameters(head, headValues(feedID))}${digits.join('')}`,
    noSignatures,
  )
}

export const decodingError = (
  message: RegExp | string,
): ReturnType<typeof expect.objectContaining> =>
  expect.objectContaining({
    name: 'ReportDecodingError',
    code: 'DECODING',
    message: expect.stringMatching(message),
  })
