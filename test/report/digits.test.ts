// The digits of reports. The witness is Buffer for bytes, and a regular expression for what a digit is.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { decodeReport } from '../../plugins/decoders/versions.js'
import { createPlainDecoder, type DecodeDigits } from '../../report/digits/digits.js'
import { createSIMDDecoder } from '../../report/digits/simd.js'
import { built } from '../support/files.js'
import { randomRuns } from '../support/random.js'
import { publishedReports } from '../support/report/published-reports.js'
import { mutants } from '../support/report/report-mutations.js'
import { importsOf, isRelative, read, sources, targetOf } from '../support/sources.js'
import { inForm } from '../support/tier.js'

/** Characters that there is room for, and where the bytes begin. */
const ROOM = 66_000

interface Decoder {
  readonly characters: Uint8Array
  readonly bytes: Buffer
  readonly decodeDigits: DecodeDigits
}

function openSIMD(): Decoder {
  const made = createSIMDDecoder(2 * ROOM, ROOM)
  if (made === undefined) throw new Error('this platform has no WebAssembly')
  const { memory, decodeDigits } = made
  return { characters: new Uint8Array(memory), bytes: Buffer.from(memory, ROOM), decodeDigits }
}

function openPlain(): Decoder {
  const memory = new ArrayBuffer(2 * ROOM)
  const decodeDigits = createPlainDecoder(new DataView(memory), new DataView(memory, ROOM))
  return { characters: new Uint8Array(memory), bytes: Buffer.from(memory, ROOM), decodeDigits }
}

describe.each([
  ['with WebAssembly', openSIMD()],
  ['without it', openPlain()],
])('digits %s', (_, { characters, bytes, decodeDigits }) => {
  test('are told from every other byte, in every place', () => {
    for (let place = 0; place < 64; place++)
      for (let byte = 0; byte < 256; byte++) {
        characters.fill(48, 0, 64)
        characters[place] = byte
        const isDigit = /[0-9a-fA-F]/.test(String.fromCharCode(byte))
        if (decodeDigits(0, 64) !== isDigit) throw new Error(`byte ${byte} in place ${place}`)
        const value = isDigit ? Number.parseInt(String.fromCharCode(byte), 16) : 0
        if (isDigit && bytes[place >> 1] !== (place % 2 === 0 ? 16 * value : value))
          throw new Error(`byte ${byte} in place ${place} has another value`)
      }
  })

  test('become the bytes that Buffer makes of them, wherever they stand', () => {
    const digits = fc.tuple(fc.nat(100), fc.uint8Array({ minLength: 1, maxLength: 40 }), fc.nat())
    fc.assert(
      fc.property(fc.nat(500), digits, (from, [words, some, capitals]) => {
        const expected = Buffer.alloc(32 * (words + 1), some)
        const text = Array.from(expected.toString('hex'), (digit, at) =>
          (capitals >> (at % 31)) & 1 ? digit.toUpperCase() : digit,
        ).join('')
        characters.fill(0xff, 0, ROOM)
        bytes.fill(0xaa)
        characters.set(Buffer.from(text), from)
        expect(decodeDigits(from, text.length)).toBe(true)
        expect(bytes.subarray(0, expected.length).equals(expected)).toBe(true)
        expect(bytes[expected.length]).toBe(0xaa)
      }),
      randomRuns(20, 100),
    )
  })

  test('count alone: what stands before and behind them does not', () => {
    const strange = fc.constantFrom(0, 47, 58, 64, 71, 96, 103, 128, 255)
    fc.assert(
      fc.property(fc.nat(500), fc.nat(50), fc.nat(), strange, (from, words, at, byte) => {
        const count = 64 * (words + 1)
        characters.fill(byte, 0, ROOM)
        characters.fill(102, from, from + count)
        expect(decodeDigits(from, count)).toBe(true)
        characters[from + (at % count)] = byte
        expect(decodeDigits(from, count)).toBe(false)
      }),
      randomRuns(20, 100),
    )
  })

  test('may fill the room', () => {
    characters.fill(70, 0, ROOM)
    expect(decodeDigits(ROOM - 65_536, 65_536)).toBe(true)
    expect(bytes.subarray(0, 32_768).every(byte => byte === 0xff)).toBe(true)
  })
})

test('without WebAssembly, or where it may not be compiled, there is no SIMD decoder', () => {
  const { WebAssembly } = globalThis as { WebAssembly?: object }
  const forbidden = Object.create(WebAssembly as object, {
    Module: {
      value: function Module() {
        throw new EvalError('Refused to compile')
      },
    },
  })
  try {
    for (const value of [undefined, forbidden]) {
      Object.assign(globalThis, { WebAssembly: value })
      expect(createSIMDDecoder(100, 50)).toBeUndefined()
    }
  } finally {
    Object.assign(globalThis, { WebAssembly })
  }
  expect(createSIMDDecoder(100, 50)).toBeDefined()
})

/** What a report decodes to, or the message of the error. */
const readAll = `reports => reports.map(({ fullReport, feedID }) => {
  try { return JSON.stringify(decodeReport(fullReport, feedID)) } catch ({ message }) { return message }
})`

test.each([
  ['WebAssembly', ['--jitless'], 'undefined false'],
  ['its instructions of sixteen bytes', ['--no-enable-sse4-1'], undefined],
])('a platform without %s gives the same answers', async (_, flags, printed) => {
  const reports = publishedReports.flatMap(({ version, feedID, fullReport }, seed) => {
    const original = { version: Number(version.slice(1)), resolution: 's', feedID, fullReport }
    const changed = mutants(original as Parameters<typeof mutants>[0], seed, inForm(10, 100))
    return [original, ...changed].map(each => ({
      fullReport: each.fullReport,
      feedID: each.feedID,
    }))
  })
  const simd =
    'new Uint8Array([0,97,115,109,1,0,0,0,1,5,1,96,0,1,123,3,2,1,0,10,8,1,6,0,65,0,253,15,11])'
  const program = `
    const { decodeReport } = require(${JSON.stringify(built('cjs/index.js'))})
    const isFast = typeof WebAssembly === 'object' && WebAssembly.validate(${simd})
    console.log(typeof WebAssembly, isFast)
    let text = ''
    process.stdin.on('data', data => { text += data })
    process.stdin.on('end', () => console.log(JSON.stringify((${readAll})(JSON.parse(text)))))`
  const running = promisify(execFile)(process.execPath, [...flags, '-e', program], {
    maxBuffer: 1e8,
  })
  running.child.stdin?.end(JSON.stringify(reports))
  const [platform, answers] = (await running).stdout.split('\n') as [string, string]
  // Only processors of Intel's kind have the instructions that the other flag takes away.
  if (printed !== undefined || process.arch === 'x64')
    expect(platform).toBe(printed ?? 'object false')
  const expected = reports.map(({ fullReport, feedID }) => {
    try {
      return JSON.stringify(decodeReport(fullReport, feedID))
    } catch (error) {
      return (error as Error).message
    }
  })
  // The published ones, and some of their mutants.
  expect(expected.filter(answer => answer.startsWith('{')).length).toBeGreaterThan(
    publishedReports.length + inForm(2, 20),
  )
  expect(JSON.parse(answers)).toEqual(expected)
})

test('the folder has one door', () => {
  const others = sources.filter(
    path => !path.startsWith('report/digits/') && read(path).includes('digits/'),
  )
  const entered = others.flatMap(path =>
    importsOf(read(path))
      .filter(({ from }) => isRelative(from))
      .map(({ from }) => targetOf(path, from))
      .filter(target => target.startsWith('report/digits/')),
  )
  expect([...new Set(entered)]).toEqual(['report/digits/digits.ts'])
})
