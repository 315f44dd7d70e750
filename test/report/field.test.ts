import { describe, expect, test } from '@jest/globals'
import { createDecodeReport, defineDecoder } from '../../report/decoder.js'
import {
  decodingError,
  feed,
  readWord,
  report42,
  reportOfWords,
} from '../support/report/decoding.js'

describe('a field', () => {
  const widths = Array.from({ length: 32 }, (_, index) => 8 * (index + 1))

  test.each(widths)('of type uint%i takes its range, and nothing outside', width => {
    const type = `uint${width}`
    const max = 2n ** BigInt(width) - 1n
    const shape = (value: bigint) => (width <= 48 ? Number(value) : value)
    for (const value of [0n, 1n, max >> 1n, max - 1n, max])
      expect(readWord(type, value)).toBe(shape(value))
    for (const value of [max + 1n, 2n ** 255n, -1n, -max]) {
      if (BigInt.asUintN(256, value) <= max) continue
      expect(() => readWord(type, value)).toThrow(decodingError(`field is no uint${width}`))
    }
  })

  test.each(widths)('of type int%i takes its range, and nothing outside', width => {
    const type = `int${width}`
    const max = 2n ** BigInt(width - 1) - 1n
    const shape = (value: bigint) => (width <= 48 ? Number(value) : value)
    for (const value of [-max - 1n, -max, -1n, 0n, 1n, max - 1n, max])
      expect(readWord(type, value)).toBe(shape(value))
    if (width === 256) return
    for (const value of [max + 1n, -max - 2n, 2n ** 255n, 2n ** 255n - 1n, -(2n ** 254n) - 1n]) {
      if (value >= -max - 1n && value <= max) continue
      expect(() => readWord(type, value)).toThrow(decodingError(`field is no int${width}`))
    }
    // what a writer leaves behind that forgets to extend the sign
    const unextended = BigInt.asUintN(width, -1n)
    expect(() => readWord(type, unextended)).toThrow(decodingError(`field is no int${width}`))
  })

  test('of type bool is 0 or 1', () => {
    expect(readWord('bool', 0n)).toBe(false)
    expect(readWord('bool', 1n)).toBe(true)
    for (const value of [2n, 256n, 2n ** 53n, 2n ** 255n, -1n])
      expect(() => readWord('bool', value)).toThrow(decodingError('field is no bool'))
  })

  test('of type address has its 20 bytes on the right', () => {
    expect(readWord('address', 0n)).toBe(`0x${'0'.repeat(40)}`)
    expect(readWord('address', 2n ** 160n - 1n)).toBe(`0x${'f'.repeat(40)}`)
    for (const value of [2n ** 160n, 2n ** 255n, -1n])
      expect(() => readWord('address', value)).toThrow(decodingError('field is no value of 20'))
  })

  test('of type bytes1 to bytes32 has its bytes on the left', () => {
    for (let size = 1; size <= 32; size++) {
      const padding = BigInt(256 - 8 * size)
      const most = 2n ** BigInt(8 * size) - 1n
      expect(readWord(`bytes${size}`, most << padding)).toBe(`0x${'ff'.repeat(size)}`)
      expect(readWord(`bytes${size}`, 1n << padding)).toBe(`0x${'1'.padStart(2 * size, '0')}`)
      if (size === 32) continue
      for (const value of [1n, 1n << (padding - 1n)])
        expect(() => readWord(`bytes${size}`, value)).toThrow(decodingError('field is no value'))
    }
  })

  test('of type uint64-twin is a number, and exact beside it', () => {
    const twins = defineDecoder({ version: 42, fields: { time: 'uint64-twin', price: 'int192' } })
    const decode = createDecodeReport([twins])
    for (const value of [0n, 1n, 2n ** 53n - 1n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n]) {
      const data = decode(report42('uint64 time, int192 price', value, -9n), feed(42))
      expect(data).toMatchObject({ time: Number(value), timeRaw: value, price: -9n })
    }
    expect(() => decode(report42('uint256 time, int192 price', 2n ** 64n, 1n), feed(42))).toThrow(
      decodingError('time is no uint64'),
    )
  })
})

describe('a string', () => {
  const texts = defineDecoder({
    version: 42,
    fields: { first: 'string', count: 'uint32', second: 'string' },
  })
  const decode = createDecodeReport([texts])
  const read = (...words: (bigint | string)[]) => decode(reportOfWords(feed(42), words), feed(42))
  const hex = (text: string): string => Buffer.from(text).toString('hex')

  test('may stand beside others, be empty, fill its words, and hold any text', () => {
    for (const first of [
      '',
      'F',
      'x'.repeat(31),
      'x'.repeat(32),
      '\0\0',
      '\ufeffé',
      '\u{10ffff}',
    ]) {
      for (const second of ['', 'Z', 'ü'.repeat(16), 'ü'.repeat(120)]) {
        const fullReport = report42('string first, uint32 count, string second', first, 7, second)
        expect(decode(fullReport, feed(42))).toMatchObject({ first, count: 7, second })
      }
    }
  })

  test('is found where the one before it ends, and nowhere else', () => {
    const good = [288n, 7n, 352n, 1n, hex('F'), 1n, hex('Z')]
    expect(read(...good)).toMatchObject({ first: 'F', count: 7, second: 'Z' })
    for (const offset of [0n, 32n, 256n, 287n, 289n, 320n, 352n, 416n, 2n ** 53n, 2n ** 256n - 32n])
      expect(() => read(offset, ...good.slice(1))).toThrow(decodingError('first is no string'))
    for (const offset of [0n, 288n, 320n, 384n, 2n ** 64n + 352n])
      expect(() => read(288n, 7n, offset, ...good.slice(3))).toThrow(
        decodingError('second is no string'),
      )
  })

  test('is as long as it says, within the blob', () => {
    for (const length of [2n ** 256n - 1n, 2n ** 53n, 2n ** 32n + 1n, 65n, 129n])
      expect(() => read(288n, 7n, 352n, 1n, hex('F'), length, hex('Z'))).toThrow(
        decodingError('second is no string'),
      )
    expect(() => read(288n, 7n, 352n, 1n, hex('F'), 0n, 0n)).toThrow(
      decodingError('32 bytes too many'),
    )
    expect(() => read(288n, 7n, 352n, 1n, hex('F'), 1n)).toThrow(decodingError('second is no'))
    expect(() => read(288n, 7n, 352n, 1n, hex('F'))).toThrow(decodingError('second is no'))
  })

  test('is padded with zeros', () => {
    const padded = `${hex('F')}01`
    expect(() => read(288n, 7n, 352n, 1n, padded, 1n, hex('Z'))).toThrow(
      decodingError('first is no string: its padding is not zero'),
    )
    const atTheEnd = hex('Z').padEnd(63, '0')
    expect(() => read(288n, 7n, 352n, 1n, hex('F'), 1n, `${atTheEnd}1`)).toThrow(
      decodingError('second is no string: its padding is not zero'),
    )
  })

  test.each(['80', 'ff', 'c080', 'eda080', 'f4908080', 'e282', 'f0808080'])(
    'of the bytes %s is no UTF-8 and refused',
    bytes => {
      const length = BigInt(bytes.length / 2)
      expect(() => read(288n, 7n, 352n, length, bytes, 1n, hex('Z'))).toThrow(
        decodingError('first is no string: it is not valid UTF-8'),
      )
    },
  )
})
