import { describe, expect, test } from '@jest/globals'
import { compressSync, uncompressSync } from 'snappy'
import { ValidationError } from '../../core/errors.js'
import {
  compressReport,
  reportConfigSeed,
  verifierSeed,
  verifyInstructionData,
} from '../../report/solana.js'
import { publishedReports } from '../support/report/published-reports.js'

const bytesOf = (fullReport: string): Buffer => Buffer.from(fullReport.slice(2), 'hex')

describe('what the verifier program of Solana takes', () => {
  test.each(publishedReports)(
    'report of $feedID is compressed so that another implementation reads it',
    ({ fullReport }) => {
      const bytes = bytesOf(fullReport)
      const compressed = compressReport(fullReport)
      expect(uncompressSync(Buffer.from(compressed))).toEqual(bytes)
      // Measured: 736 bytes become 327 to 347, and 704 become 312 to 318.
      expect(compressed.length).toBeLessThan(bytes.length / 2)
      expect(compressed.length).toBeLessThan(1.05 * compressSync(bytes).length)
      const data = Buffer.from(verifyInstructionData(fullReport))
      expect([...data.subarray(0, 8)]).toEqual([133, 161, 141, 48, 120, 198, 88, 150])
      expect(data.readUInt32LE(8)).toBe(compressed.length)
      expect(data.subarray(12)).toEqual(Buffer.from(compressed))
      expect(Buffer.from(reportConfigSeed(fullReport)).toString('hex')).toBe(
        fullReport.slice(2, 66).toLowerCase(),
      )
    },
  )

  test('the seed of the verifier is its name', () => {
    expect(Buffer.from(verifierSeed()).toString()).toBe('verifier')
  })

  test.each([
    [undefined, /^fullReport must be a string, not undefined/],
    ['0x12', /^fullReport must be 0x and hexadecimal digits of whole 32-byte words/],
    [`0x${'zz'.repeat(320)}`, /^fullReport must be 0x and hexadecimal digits/],
    ['0x', /^fullReport must have 320 to \d+ bytes, not 0/],
    [`0x${'00'.repeat(1 << 20)}`, /^fullReport must have 320 to \d+ bytes/],
  ])('refuses %#', (given, message) => {
    expect(() => compressReport(given as string)).toThrow(ValidationError)
    expect(() => compressReport(given as string)).toThrow(message)
  })
})
