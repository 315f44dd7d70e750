// The property that the differential tests check.
import { deepStrictEqual } from 'node:assert/strict'
import { AbiCoder, ParamType } from 'ethers'
import fc from 'fast-check'
import { type AbiParameter, decodeAbiParameters } from 'viem'
import { seeded } from './decoder-runs.js'
import {
  type AbiField,
  encodeReport,
  expectedData,
  fieldsOf,
  type Hex,
  outerTypes,
  type RandomReport,
  type Resolution,
  reports,
} from './report-arbitrary.js'
import { decodeAny } from './third-party.js'

type Decode = (fullReport: Hex) => readonly unknown[]

const outer: readonly AbiParameter[] = outerTypes.map(type => ({ type }))

/** The blob's values by viem. */
function viemDecoder(fields: readonly AbiField[]): Decode {
  return fullReport => {
    const [, blob] = decodeAbiParameters(outer, fullReport)
    return decodeAbiParameters(fields, blob as Hex)
  }
}

/** ethers takes bytes much faster than hexadecimal. */
const bytesOf = (hex: Hex): Uint8Array => Buffer.from(hex.slice(2), 'hex')

/** The blob's values by ethers. */
function ethersDecoder(fields: readonly AbiField[]): Decode {
  const coder = AbiCoder.defaultAbiCoder()
  const ofReport = outerTypes.map(type => ParamType.from(type))
  const ofBlob = fields.map(({ type }) => ParamType.from(type))
  return fullReport => {
    const [, blob] = coder.decode(ofReport, bytesOf(fullReport))
    return coder.decode(ofBlob, bytesOf(blob)).toArray()
  }
}

/** viem drops a byte order mark, and zeros, at the start of a string; they are part of what was encoded. */
function restoreStarts(values: readonly unknown[], encoded: readonly unknown[]): unknown[] {
  return values.map((value, index) => {
    const original = encoded[index]
    return typeof original === 'string' && /^[\ufeff\0]/.test(original) ? original : value
  })
}

/** Throws where a random report of the version decodes otherwise than by viem or by ethers. */
export function checkAgreement(version: number, resolution: Resolution, numRuns: number): void {
  const fields = fieldsOf(version, resolution)
  const viem = viemDecoder(fields)
  const ethers = ethersDecoder(fields)
  const agree = ({ feedID, values, envelope }: RandomReport): void => {
    const fullReport = encodeReport(fields, values, envelope)
    // A copy: the prototype of a decoded report is not that of other objects.
    const ours = { ...(decodeAny(fullReport, feedID) as object) }
    const viems = restoreStarts(viem(fullReport), values)
    deepStrictEqual(ours, expectedData(version, fields, viems))
    deepStrictEqual(ours, expectedData(version, fields, ethers(fullReport)))
  }
  fc.assert(fc.property(reports(version, resolution), agree), { numRuns, ...seeded })
}
