import { expect, test } from '@jest/globals'
import { sampleReport } from 'sluice/testing'
import { frameOf, messageID, readFrame } from '../frame.js'
import { feedsOfShare } from '../subjects.js'

const feedID = `0x0003${'5'.repeat(60)}`
const options = { feedID, observationsTimestamp: 1_700_000_000 }
const report = sampleReport(options)

test('a message has the report, and is read only as one of its feed', () => {
  expect(readFrame(frameOf(report), feedID)).toMatchObject({ ...report, feedID })
  expect(readFrame(frameOf(report), `0x0003${'6'.repeat(60)}`)).toBeUndefined()
  expect(readFrame(new TextEncoder().encode('{"report":1}'), feedID)).toBeUndefined()
})

test('the id of a message is that of the observation, whoever has signed it', () => {
  const signed = { ...report, ...sampleReport({ ...options, signed: true }) }
  expect(signed.fullReport).not.toBe(report.fullReport)
  expect(messageID(signed)).toBe(messageID(report))
  const other = { ...report, ...sampleReport({ ...options, values: [1n, 2n, 3n] }) }
  expect(messageID(other)).not.toBe(messageID(report))
})

test('each feed is in one share', () => {
  const feeds = Array.from({ length: 400 }, (_, at) => `0x0003${at.toString(16).padStart(60, 'd')}`)
  const shares = [0, 1, 2].map(index => feedsOfShare(feeds, { index, of: 3 }))
  expect(shares.flat().sort()).toEqual([...feeds].sort())
  for (const share of shares) expect(share.length).toBeGreaterThan(90)
})
