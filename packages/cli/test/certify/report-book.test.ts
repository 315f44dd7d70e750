import { expect, test } from '@jest/globals'
import { encodeBlob, encodeFullReport, feedID } from '@sluice/test-support/service/report.js'
import { ReportBook, readEnvelope, type SeenReport } from '../../certify/report-book.js'

const feed = feedID(3)
const word = `0x${'00'.repeat(32)}` as const
const signatures = { rs: [word], ss: [word], vs: word }
const start = 1_700_000_000
const [HEAD, WORD] = [2 + 8 * 64, 64]
const now = (): number => start * 1000

/** The bytes of a report at a time, made of another's: encoding thousands takes long. */
const pattern: string = encodeFullReport(
  [word, word, word],
  encodeBlob(feed, { feedID: feed, expiresAt: start + 1_000_000 }),
  signatures,
)
const reportAt = (observed: number, validFrom = observed): string => {
  const times = [validFrom, observed].map(time => time.toString(16).padStart(WORD, '0'))
  return pattern.slice(0, HEAD + WORD) + times.join('') + pattern.slice(HEAD + 3 * WORD)
}
const take = (book: ReportBook, observed: number, validFrom?: number): SeenReport | undefined =>
  book.take(
    { feedID: feed, fullReport: reportAt(observed, validFrom), validFrom, observed },
    { isStreamed: true, isLive: true },
  )

test('remembers the last 20,000 reports of a feed, however many come', () => {
  const book = new ReportBook(undefined, now)
  for (let at = 0; at < 20_100; at++) take(book, start + at)
  const kept = book.of(feed)
  expect(kept).toHaveLength(20_000)
  expect(kept[0]?.observed).toBe(start + 100)
  book.compareWindows(kept, true)
  for (const tally of [book.envelopes, book.windows, book.tiles, book.expiries, book.schemas])
    expect(tally.finding('cases').status).toBe('ok')
})

test('a report of the longest range may leave a gap before it, another may not', () => {
  const book = new ReportBook(undefined, now)
  const before = { feedID: feed, validFrom: start, observed: start }
  const clamped = { feedID: feed, validFrom: start + 100, observed: start + 400 }
  book.compareWindows([before, clamped], true)
  expect([book.clamped, book.tiles.finding('neighbours').status]).toEqual([1, 'not checked'])
  book.compareWindows([before, { ...clamped, observed: start + 399 }], false)
  expect(book.tiles.finding('neighbours').status).toBe('not checked')
  book.compareWindows([before, { ...clamped, observed: start + 399 }], true)
  expect(book.tiles.finding('neighbours').text).toMatch(/they leave out 99$/)
})

test.each([
  [undefined, /feedID/],
  [{ feedID: 7 }, /feedID/],
  [{ feedID: feed, fullReport: '0xno' }, /fullReport/],
  [{ feedID: feed, fullReport: '0x00' }, /timestamp/],
  [{ feedID: feed, fullReport: '0x00', validFromTimestamp: 1, observationsTimestamp: 1.5 }, /time/],
])('%#: an envelope that is none is described', (value, text) => {
  expect(readEnvelope(value)).toMatch(text)
})

test('a stream may leave the times out', () => {
  const envelope = { feedID: feed.toUpperCase().replace('0X', '0x'), fullReport: '0x00' }
  expect(readEnvelope(envelope, true)).toMatchObject({ feedID: feed, observed: undefined })
})
