// What the stores have in common, without a store.
import { expect, test } from '@jest/globals'
import { candleMessage, reportMessage, sizeOf } from '../kafka/messages.js'
import { newestOf, readDecimals, scaled } from '../tables.js'
import { feedOf, makeCandle, makeReport, TIME } from './support/reports.js'

test('of the candles of a batch, the newest of each feed, interval and start is kept', () => {
  const candles = [
    makeCandle({ revision: 3, close: 1n }),
    makeCandle({ revision: 5, close: 2n }),
    makeCandle({ revision: 4, close: 3n }),
    makeCandle({ revision: 1, close: 4n, start: TIME + 60 }),
    makeCandle({ revision: 1, close: 5n, start: TIME + 60 }),
  ]
  expect(newestOf(candles).map(({ close }) => close)).toEqual([2n, 5n])
})

test('a price is stored with 18 digits after the point, whatever its decimals', () => {
  const decimalsOf = readDecimals({ [feedOf(3)]: 8 })
  expect(scaled(-12n, decimalsOf(feedOf(3)))).toBe(-120_000_000_000n)
  expect(scaled(-12n, decimalsOf(feedOf(4)))).toBe(-12n)
})

test('the messages of a feed have its id as their key, so that a partition has them in order', () => {
  const [first, second] = [TIME, TIME + 1].map(time =>
    reportMessage('t', makeReport({ time }), time),
  )
  const candle = candleMessage('t', makeCandle())
  for (const message of [first, second, candle]) expect(String(message?.key)).toBe(feedOf(3))
  expect(String(first?.value)).not.toBe(String(second?.value))
  expect(sizeOf(candle)).toBeGreaterThan(String(candle.value).length)
})
