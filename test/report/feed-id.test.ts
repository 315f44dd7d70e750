import { describe, expect, test } from '@jest/globals'
import { ValidationError } from '../../core/errors.js'
import { feedResolution, feedVersion, getReportVersion } from '../../report/feed-id.js'
import { feed } from '../support/report/decoding.js'

describe('a feed id', () => {
  test('getReportVersion tells the version that a feed id announces', () => {
    expect(getReportVersion(feed(3))).toBe('V3')
    expect(getReportVersion(feed(10, 'ms'))).toBe('V10')
    expect(getReportVersion(feed(4095))).toBe('V4095')
    expect(getReportVersion(`0x000A${'F'.repeat(60)}`)).toBe('V10')
    expect(getReportVersion(`0X0003${'F'.repeat(60)}`)).toBe('V3')
    for (const thing of ['', '0x0003', ` 0x0003${'f'.repeat(60)}`, undefined, 3])
      expect(() => getReportVersion(thing as string)).toThrow(ValidationError)
  })

  test('feedVersion and feedResolution read the first two bytes', () => {
    expect(feedVersion(feed(14))).toBe(14)
    expect(feedVersion(feed(14, 'ms'))).toBe(14)
    expect(feedResolution(feed(14))).toBe('s')
    expect(feedResolution(feed(14, 'ms'))).toBe('ms')
  })
})
