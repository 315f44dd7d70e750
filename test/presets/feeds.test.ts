import { describe, expect, test } from '@jest/globals'
import { findFeed, getReportVersion, knownFeeds, ValidationError } from '../../index.js'
import { publishedReports } from '../support/report/published-reports.js'

const all = [knownFeeds.mainnet, knownFeeds.testnet].flatMap(feeds => Object.entries(feeds))

describe('the known feeds', () => {
  test('have an id of their own each, and the name that they are listed by', () => {
    expect(new Set(all.map(([, { feedID }]) => feedID)).size).toBe(all.length)
    for (const [name, feed] of all) {
      expect(feed).toEqual({
        feedID: expect.stringMatching(/^0x[0-9a-f]{64}$/),
        name,
        decimals: 18,
        asset: name.split('/')[0],
        quoteAsset: 'USD',
      })
      expect(getReportVersion(feed.feedID)).toBe('V3')
    }
  })

  test('cannot be changed', () => {
    for (const feeds of [knownFeeds, knownFeeds.mainnet, knownFeeds.testnet])
      expect(Object.isFrozen(feeds)).toBe(true)
    expect(Object.isFrozen(knownFeeds.mainnet['BTC/USD'])).toBe(true)
  })

  test('are found by their ids, in either case', () => {
    for (const [, feed] of all) {
      expect(findFeed(feed.feedID)).toBe(feed)
      expect(findFeed(`0x${feed.feedID.slice(2).toUpperCase()}`)).toBe(feed)
    }
    expect(findFeed(`0x0003${'ab'.repeat(30)}`)).toBeUndefined()
    expect(() => findFeed('ETH/USD')).toThrow(ValidationError)
  })

  test('are those of the published reports', () => {
    const { feedID } = knownFeeds.testnet['ETH/USD']
    expect(publishedReports.map(report => report.feedID)).toContain(feedID)
  })
})
