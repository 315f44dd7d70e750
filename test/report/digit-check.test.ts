import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createDigitCheck } from '../../report/characters.js'
import { areDigits } from '../../report/hex-digits.js'
import { built } from '../support/files.js'
import { publishedReports } from '../support/report/published-reports.js'

const SIZE = 70_000
const { memory, check } = createDigitCheck(SIZE) as NonNullable<ReturnType<typeof createDigitCheck>>
const view = new DataView(memory)
const bytes = new Uint8Array(memory)

test('every byte in every place of sixteen is told apart as without WebAssembly', () => {
  for (let place = 0; place < 16; place++)
    for (let byte = 0; byte < 256; byte++) {
      bytes.fill(48, 0, 16)
      bytes[place] = byte
      const isDigit = /[0-9a-fA-F]/.test(String.fromCharCode(byte))
      if (check(0, 16) !== isDigit) throw new Error(`byte ${byte} in place ${place}`)
      expect(areDigits(view, 0, 16)).toBe(isDigit)
    }
})

test('what stands before and behind does not matter, and what stands between always does', () => {
  const length = fc.integer({ min: 1, max: 200 }).map(times => 16 * times)
  fc.assert(
    fc.property(
      fc.nat(500),
      length,
      fc.nat(),
      fc.constantFrom(47, 58, 64, 71, 96, 103, 0, 255),
      (from, count, at, byte) => {
        bytes.fill(byte)
        bytes.fill(102, from, from + count)
        expect(check(from, from + count)).toBe(true)
        bytes[from + (at % count)] = byte
        expect(check(from, from + count)).toBe(false)
        expect(areDigits(view, from, from + count)).toBe(false)
      },
    ),
  )
  bytes.fill(70)
  expect(check(SIZE - 16, SIZE)).toBe(true)
})

test('a platform without WebAssembly reads reports all the same', async () => {
  const library = JSON.stringify(built('cjs/index.js'))
  const [{ feedID, fullReport }] = publishedReports as [(typeof publishedReports)[0]]
  const program = `
    const { decodeReport } = require(${library})
    const { feedID, fullReport } = JSON.parse(process.env.GIVEN)
    const { version } = decodeReport(fullReport, feedID)
    let wrong = 'taken'
    try { decodeReport(fullReport.slice(0, -1) + 'g', feedID) } catch ({ name }) { wrong = name }
    console.log(typeof WebAssembly, version, wrong)`
  const { stdout } = await promisify(execFile)(process.execPath, ['--jitless', '-e', program], {
    env: { GIVEN: JSON.stringify({ feedID, fullReport }) },
  })
  expect(stdout).toBe('undefined V3 ReportDecodingError\n')
})
