import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { DuplicateCache, type Place } from '../../../client/fast/duplicates.js'
import { createMessageReader } from '../../../client/fast/message.js'
import { Feeds } from '../../../client/stream/feeds.js'
import { parseFrame } from '../../../client/stream/intake.js'
import { asError } from '../../../core/errors.js'
import { allDecoders, decodeReport } from '../../../plugins/decoders/versions.js'
import { createDecoderTable } from '../../../report/decoder.js'
import { type Report, toReport } from '../../../report/report.js'
import { type PublishedReport, publishedReports } from '../../support/report/published-reports.js'
import {
  encodeReport,
  envelopeFrom,
  feedIDOf,
  fieldsOf,
  type RandomReport,
  reports,
  versions,
} from '../../support/report/report-arbitrary.js'
import { inForm } from '../../support/tier.js'

const table = createDecoderTable(allDecoders)
const encode = (text: string): Uint8Array => new TextEncoder().encode(text)

function readerFor(...feedIDs: string[]): ReturnType<typeof createMessageReader> {
  const feeds = new Feeds()
  feeds.add(feedIDs)
  return createMessageReader(feeds.states, table)
}

/** What the standard path makes of a message, or why it rejects it. */
function readPlainly(data: Uint8Array): Report | Error {
  try {
    return toReport(parseFrame(data), 'one', table, 'live')
  } catch (thrown) {
    return asError(thrown)
  }
}

interface Written {
  readonly report: RandomReport
  readonly json: Readonly<Record<string, string | number>>
}

/** A report and its JSON, with the keys in any order and with or without its times. */
const written: fc.Arbitrary<Written> = fc
  .constantFrom(...versions)
  .chain(version =>
    fc.constantFrom('s' as const, 'ms' as const).chain(unit => reports(version, unit)),
  )
  .chain(report => {
    const { version, resolution, values, envelope, feedID } = report
    const [, validFromTimestamp, observationsTimestamp] = values as number[]
    const json = {
      feedID: feedID.toLowerCase(),
      fullReport: encodeReport(fieldsOf(version, resolution), values, envelope),
      validFromTimestamp: Number(validFromTimestamp),
      observationsTimestamp: Number(observationsTimestamp),
    }
    const keys = fc.subarray(['validFromTimestamp', 'observationsTimestamp'] as const)
    return keys
      .chain(times =>
        fc.shuffledSubarray(['feedID', 'fullReport', ...times], { minLength: 2 + times.length }),
      )
      .map(order => ({
        report,
        json: Object.fromEntries(order.map(key => [key, json[key as keyof typeof json]])),
      }))
  })

test('an ordinary message is read by the fast path, and as the standard path reads it', () => {
  const property = ({ report, json }: Written): void => {
    const data = encode(JSON.stringify({ report: json }))
    const found = readerFor(report.feedID.toLowerCase())(data, 'one')
    expect(found).toEqual(readPlainly(data))
    expect(found?.decoded).toEqual((readPlainly(data) as Report).decoded)
  }
  fc.assert(fc.property(written, property), { numRuns: inForm(60, 300) })
})

test.each([
  // A key ends where the longer report did, or the whole feed id stands before that.
  [
    'observationsTimestamp',
    1234,
    ['fullReport', 'feedID', 'validFromTimestamp', 'observationsTimestamp'],
  ],
  ['feedID', 1, ['fullReport', 'validFromTimestamp', 'observationsTimestamp', 'feedID']],
])(
  'a report is read after one that is as much longer as the quote behind %s is away',
  (_, from, order) => {
    const feedID = feedIDOf(7, 's', 7n)
    const values = [feedID, from, from + 9, 3n, 4n, 5, 6n]
    const read = readerFor(feedID)
    for (const signatures of [2, 1]) {
      const fullReport = encodeReport(fieldsOf(7, 's'), values, envelopeFrom(1, signatures))
      const json = { feedID, fullReport, validFromTimestamp: from, observationsTimestamp: from + 9 }
      const data = encode(JSON.stringify({ report: json }, ['report', ...order]))
      expect(read(data, 'one')).toEqual(readPlainly(data))
    }
  },
)

/** Writes JSON in valid but unusual ways. */
const styles: readonly ((json: Written['json']) => string)[] = [
  json => JSON.stringify({ report: json }, null, 1),
  json => `${JSON.stringify({ report: json })} `,
  json => `\ufeff${JSON.stringify({ report: json })}`,
  json => JSON.stringify({ report: json, more: 1 }),
  json => JSON.stringify({ report: { ...json, more: 1 } }),
  json => JSON.stringify({ report: json }).replace('feedID', 'feed\\u0049D'),
  json => JSON.stringify({ report: json }).replace('0x', '\\u0030x'),
  json => JSON.stringify({ report: { ...json, feedID: String(json.feedID).toUpperCase() } }),
  json =>
    JSON.stringify({
      report: { ...json, fullReport: `0x${String(json.fullReport).slice(2).toUpperCase()}` },
    }),
  json => JSON.stringify({ report: json }).replace('{"report":{', '{"report":{"feedID":"0x00",'),
  json => JSON.stringify({ report: json }).replace('}}', ',"observationsTimestamp":1}}'),
  json => JSON.stringify({ report: { ...json, observationsTimestamp: '1' } }),
  json => JSON.stringify({ report: { ...json, validFromTimestamp: null } }),
  json => JSON.stringify({ report: json }).replace(/Timestamp":(\d+)/g, 'Timestamp":$1.0'),
  json => JSON.stringify({ report: json }).replace(/Timestamp":(\d+)/g, 'Timestamp":$1e0'),
  json => JSON.stringify({ report: json }).replace(/Timestamp":(\d+)/g, 'Timestamp":0$1'),
  json => JSON.stringify({ report: json }).replace(/Timestamp":(\d+)/g, 'Timestamp":-$1'),
]

/** Bytes that are changed, inserted or left out, somewhere. */
const edits = fc.array(
  fc.tuple(
    fc.constantFrom('flip', 'insert', 'remove', 'cut', 'copy'),
    fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    fc.nat(255),
  ),
  { minLength: 0, maxLength: 3 },
)

function edit(data: Uint8Array, list: readonly (readonly [string, number, number])[]): Uint8Array {
  let bytes = [...data]
  for (const [how, where, value] of list) {
    // The ends, where the words of JSON are, get as many as the digits.
    const near = where < 0.5 ? where * 2 * Math.min(130, bytes.length) : where * bytes.length
    const at = Math.floor(near)
    if (how === 'flip') bytes[at] = (bytes[at] ?? 0) ^ (1 << (value % 8))
    else if (how === 'insert') bytes.splice(at, 0, value)
    else if (how === 'remove') bytes.splice(at, 1 + (value % 70))
    else if (how === 'cut') bytes = bytes.slice(0, at)
    else bytes.splice(at, 0, ...bytes.slice(at, at + (value % 70)))
  }
  return Uint8Array.from(bytes)
}

test('whatever a message looks like, the fast path sees what the standard path reads, or nothing', () => {
  const tally = { same: 0, nothing: 0 }
  const property = ({ report, json }: Written, style: number, list: [string, number, number][]) => {
    const write = styles[style] ?? ((each: Written['json']) => JSON.stringify({ report: each }))
    const data = edit(encode(write(json)), list)
    const found = readerFor(report.feedID.toLowerCase())(data, 'one')
    if (found === undefined) tally.nothing++
    else {
      tally.same++
      expect(found).toEqual(readPlainly(data))
    }
  }
  const style = fc.nat(2 * styles.length)
  const numRuns = inForm(1000, 20_000)
  fc.assert(fc.property(written, style, edits, property), { numRuns })
  expect(tally.same).toBeGreaterThan(numRuns / 20)
  expect(tally.nothing).toBeGreaterThan(numRuns / 20)
})

test('a feed that is not subscribed is not seen, also if it was', () => {
  const feeds = new Feeds()
  const [one, other] = publishedReports
  const read = createMessageReader(feeds.states, table)
  const frame = (report: (typeof publishedReports)[number] | undefined) =>
    encode(JSON.stringify({ report: { feedID: report?.feedID, fullReport: report?.fullReport } }))
  feeds.add([one?.feedID as string])
  expect(read(frame(one), 'one')).toBeDefined()
  expect(read(frame(other), 'one')).toBeUndefined()
  feeds.remove([one?.feedID as string])
  expect(read(frame(one), 'one')).toBeUndefined()
})

test('feeds whose ids end alike are distinguished', () => {
  const ids = ['0x0007', '0x0007ff', '0x0007ee'].map(start => start.padEnd(66, 'a'))
  const read = readerFor(...ids)
  for (const feedID of [...ids, ...ids]) {
    const values = [feedID, 1, 2, 3n, 4n, 5, 6n]
    const fullReport = encodeReport(fieldsOf(7, 's'), values)
    expect(read(encode(JSON.stringify({ report: { feedID, fullReport } })), 'one')?.feedID).toBe(
      feedID,
    )
  }
})

const [first, second] = publishedReports.filter(({ version }) => version === 'V3') as [
  PublishedReport,
  PublishedReport,
]
const messageOf = ({ feedID, fullReport }: { feedID: string; fullReport: string }): string =>
  JSON.stringify({ report: { feedID, fullReport } })

test('no character of a report may be anything but a digit', () => {
  const read = readerFor(first.feedID)
  const data = encode(messageOf(first))
  const start = messageOf(first).indexOf('"fullReport"') + 16
  for (let at = start; at < start + first.fullReport.length - 2; at++) {
    const changed = data.slice()
    changed[at] = 'g'.charCodeAt(0)
    expect(read(changed, 'one')).toBeUndefined()
  }
})

test('a report that is signed for another feed is not seen, though that is subscribed, too', () => {
  const other = { feedID: first.feedID, fullReport: second.fullReport }
  expect(first.feedID).not.toBe(second.feedID)
  expect(readerFor(first.feedID, second.feedID)(encode(messageOf(other)), 'one')).toBeUndefined()
})

test.each(['feedID', 'fullReport'])(
  'a message with two of %s is left to the standard path',
  key => {
    const text = messageOf(first)
    const value = JSON.stringify({ [key]: first[key as 'feedID'] }).slice(1, -1)
    for (const twice of [value, value.replace(/.{3}"$/, '\\q"')]) {
      const data = encode(text.replace('{"report":{', `{"report":{${twice},`))
      expect(readerFor(first.feedID)(data, 'one')).toBeUndefined()
    }
  },
)

test('reports are decoded from their own bytes, whichever was read last', () => {
  const read = readerFor(first.feedID, second.feedID)
  const [one, other] = [first, second].map(each => read(encode(messageOf(each)), 'one') as Report)
  expect(one?.decoded).toEqual(decodeReport(first.fullReport, first.feedID))
  expect(other?.decoded).toEqual(decodeReport(second.fullReport, second.feedID))
  expect(read(encode(messageOf(first)), 'one')?.decoded).toEqual(one?.decoded)
  expect(decodeReport(second.fullReport, second.feedID)).toEqual(other?.decoded)
})

test('a message that is rejected does not change the report before it', () => {
  const read = readerFor(first.feedID)
  const good = read(encode(messageOf(first)), 'one') as Report
  expect(read(encode(`${messageOf(second)} and more`), 'one')).toBeUndefined()
  expect(good.decoded).toEqual(decodeReport(first.fullReport, first.feedID))
  read(encode(messageOf(first)), 'one')
  expect(read(encode('{"report":{"feedID":"0x'.padEnd(2000, '7')), 'one')).toBeUndefined()
  expect(decodeReport(first.fullReport, first.feedID)).toEqual(good.decoded)
})

test('the longest report may not end in a character of several bytes', () => {
  const { feedID } = first
  // As long as one can be: what stands behind it in the buffer is its like, and whole.
  const longest = `0x${'0'.repeat(131_072)}`
  expect(() => decodeReport(longest, feedID)).toThrow(/^(?!.*hexadecimal)/)
  expect(() => decodeReport(`${longest.slice(0, -1)}é`, feedID)).toThrow(/hexadecimal/)
})

/** Messages of a report that differ in a few bytes. */
function makeMessages(count: number): { data: Uint8Array; report: Report }[] {
  const { feedID = '', fullReport = '' } = publishedReports[0] ?? {}
  return Array.from({ length: count }, (_, index) => {
    const changed = `${fullReport.slice(0, -8)}${index.toString(16).padStart(8, '0')}`
    const data = encode(JSON.stringify({ report: { feedID, fullReport: changed } }))
    return { data, report: readPlainly(data) as Report }
  })
}

const newPlace = (): Place => ({ next: 0, lead: 0 })

test('a cache of duplicates knows the same bytes, and no others', () => {
  const duplicates = new DuplicateCache()
  const [one, other] = [newPlace(), newPlace()]
  const messages = publishedReports.map(({ feedID, fullReport }) =>
    encode(JSON.stringify({ report: { feedID, fullReport } })),
  )
  for (const data of messages) {
    expect(duplicates.find(data, one)).toBeUndefined()
    const report = readPlainly(data) as Report
    duplicates.add(data, report, one)
    expect(duplicates.find(data.slice(), { ...other })).toBe(report)
    const mistaken = [...data.keys()].filter(at => {
      const changed = data.slice()
      changed[at] = (changed[at] ?? 0) ^ 1
      return duplicates.find(changed, { ...other }) !== undefined
    })
    expect(mistaken).toEqual([])
    expect(duplicates.find(data.subarray(1), { ...other })).toBeUndefined()
    expect(duplicates.find(data, other)).toBe(report)
  }
})

test('a cache of duplicates that is written over finds what is still there, and what it finds is right', () => {
  const duplicates = new DuplicateCache()
  const [one, other] = [newPlace(), newPlace()]
  const messages = makeMessages(4000)
  for (const { data, report } of messages) {
    expect(duplicates.find(data, one)).toBeUndefined()
    duplicates.add(data, report, one)
  }
  const found = messages.map(({ data, report }) => {
    const remembered = duplicates.find(data, other)
    if (remembered !== undefined) expect(remembered).toBe(report)
    return remembered !== undefined
  })
  expect(found.filter(Boolean).length).toBeLessThanOrEqual(512)
  expect(found.slice(-500).every(Boolean)).toBe(true)
})

test('a cache of duplicates finds what comes in another order, twice or after others were left out', () => {
  const duplicates = new DuplicateCache()
  const messages = makeMessages(100)
  const one = newPlace()
  for (const { data, report } of messages) {
    duplicates.find(data, one)
    duplicates.add(data, report, one)
  }
  const backwards = newPlace()
  for (const { data, report } of [...messages].reverse())
    expect(duplicates.find(data, backwards)).toBe(report)
  const seldom = newPlace()
  for (const { data, report } of messages.filter((_, index) => index % 7 === 0)) {
    expect(duplicates.find(data, seldom)).toBe(report)
    expect(duplicates.find(data, seldom)).toBe(report)
  }
})

test('a place counts how far its connection is ahead', () => {
  const duplicates = new DuplicateCache()
  const [one, other] = [newPlace(), newPlace()]
  const messages = makeMessages(10)
  let length = 0
  for (const { data, report } of messages) {
    duplicates.find(data, one)
    duplicates.add(data, report, one)
    length += data.length
  }
  expect(one.lead).toBe(length)
  const { data } = messages[0] as { data: Uint8Array }
  duplicates.find(data, other)
  duplicates.find(data, one)
  expect([one.lead, other.lead]).toEqual([0, 0])
})
