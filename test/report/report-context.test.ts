import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { decodeAbiParameters } from 'viem'
import { readContext } from '../../report/full-report.js'
import { publishedReports } from '../support/report/published-reports.js'
import {
  encodeOuter,
  encodeReport,
  feedIDOf,
  fieldsOf,
  type Hex,
  outerTypes,
  reports,
} from '../support/report/report-arbitrary.js'

const parts = outerTypes.map(type => ({ type }))
const LLO: Hex = `0x${'300000001'.padStart(64, '0')}`

test.each(publishedReports)('the context of the published report of $configDigest', report => {
  const { fullReport, feedID, configDigest } = report
  const [context, , rs, ss, vs] = decodeAbiParameters(parts, fullReport as Hex) as unknown as [
    readonly Hex[],
    Hex,
    readonly Hex[],
    readonly Hex[],
    Hex,
  ]
  const position = Number(context[1])
  const read = readContext(fullReport, feedID)
  expect(read).toEqual({
    configDigest,
    epoch: Math.floor(position / 256),
    round: position % 256,
    sequenceNumber: BigInt(context[2] as Hex) === 0n ? undefined : position,
    extraHash: context[2],
    signatures: rs.map((r, i) => ({
      r,
      s: ss[i],
      v: Number(`0x${vs.slice(2 + 2 * i, 4 + 2 * i)}`),
    })),
  })
  expect(read.signatures.length).toBe(2)
  expect(readContext(`0x${fullReport.slice(2).toUpperCase()}`, feedID)).toEqual(read)
})

describe('the sequence number', () => {
  const id = feedIDOf(3, 's', 1n)
  const blob = encodeReport(fieldsOf(3, 's'), [id, 1, 2, 0n, 0n, 3, 1n, 2n, 3n])
  const [, bytes] = decodeAbiParameters(parts, blob) as unknown as [unknown, Hex]
  const positioned = (position: string, extraHash: Hex): ReturnType<typeof readContext> => {
    const word: Hex = `0x${position.padStart(64, '0')}`
    const zero: Hex = `0x${'0'.repeat(64)}`
    const envelope = { context: [zero, word, extraHash], rs: [], ss: [], vs: zero } as const
    return readContext(encodeOuter(bytes, envelope), id)
  }

  test('is epoch and round, where there is an extra hash', () => {
    expect(positioned('ffffffffff', LLO)).toMatchObject({
      epoch: 0xffff_ffff,
      round: 255,
      sequenceNumber: 2 ** 40 - 1,
    })
    expect(positioned('0100', LLO)).toMatchObject({ epoch: 1, round: 0, sequenceNumber: 256 })
  })

  test('is none, where there is none', () => {
    const none = positioned('0102', `0x${'0'.repeat(64)}`)
    expect(none).toMatchObject({ epoch: 1, round: 2, sequenceNumber: undefined })
  })
})

test('any context is read as viem has it, with up to 31 signatures', () => {
  fc.assert(
    fc.property(reports(14, 's'), ({ feedID, values, envelope }) => {
      const { configDigest, extraHash, signatures } = readContext(
        encodeReport(fieldsOf(14, 's'), values, envelope),
        feedID,
      )
      expect([configDigest, extraHash]).toEqual([envelope.context[0], envelope.context[2]])
      expect(signatures.map(({ r }) => r)).toEqual(envelope.rs)
      expect(signatures.map(({ s }) => s)).toEqual(envelope.ss)
      expect(
        signatures
          .map(({ v }) => `0${v}`)
          .join('')
          .padEnd(64, '0'),
      ).toBe(envelope.vs.slice(2))
    }),
  )
})

test('a report of another feed, or one that is cut short, is refused', () => {
  const [one, other] = publishedReports as [
    (typeof publishedReports)[0],
    (typeof publishedReports)[0],
  ]
  expect(() => readContext(one.fullReport, other.feedID)).toThrow('it is signed for feed')
  expect(() => readContext(one.fullReport.slice(0, -64), one.feedID)).toThrow('its parts take')
})
