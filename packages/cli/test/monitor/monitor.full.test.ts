import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { until } from '@sluice/test-support/waiting.js'
import type { FeedDetails, RateDetails } from '../../monitor/messages.js'
import { eth, fine, startMonitored } from '../support/monitor/monitored.js'

// The catalogue is asked, and a gap is called one, ten seconds later.

const closers = closeAfterEach()

test('says which feed the service is going to retire', async () => {
  const feeds = [eth, { feedID: fine, catalogue: { expectedDecommissionAt: '2126-12-01' } }]
  const { stream, reader, shows } = await startMonitored(closers, { feeds })
  await stream.connect()
  // The catalogue is asked ten seconds after the first connection.
  await pause(10_000)
  const fact = '1 feed retires on 2126-12-01'
  await shows('verdict', { facts: expect.arrayContaining([fact]) })
  const events = reader.messages.flatMap(({ events: each = [] }) => each)
  const text = 'fine: it retires on 2126-12-01'
  expect(events).toContainEqual(expect.objectContaining({ kind: 'retiring', text }))
})

describe('the details of a monitor', () => {
  test('are the rates, and a feed with its prices, gaps and conflicts, by its id or its name', async () => {
    const { engine, stream, reader, shows, ask } = await startMonitored(closers, {
      origins: 2,
      history: 1,
    })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    const [, second] = engine.origins
    for (const price of [1n, 5n, 2n]) {
      engine.publish(fine, { price: price * 10n ** 18n + 1n })
      // Reports that are wider than a millisecond show that the reports of the feed link.
      await pause(50)
    }
    engine.publish(fine, {}, { streamed: false, stored: false })
    await pause(50)
    engine.publish(fine, { price: 3n * 10n ** 18n })
    await until(() => stream.getMetrics().gaps === 1)
    second?.forge('value')
    engine.publish(fine, { price: 3n * 10n ** 18n })
    await shows('totals', { gaps: 1, conflicts: 1 })
    second?.forge(undefined)
    engine.publish(fine, { price: 4n * 10n ** 18n, bid: 3n * 10n ** 18n, ask: 5n * 10n ** 18n })
    await shows('feeds', { price: '4.0000' }, 1)
    const { status, body } = await ask('/feed?feed=FINE&range=15m')
    expect(status).toBe(200)
    const details = body as FeedDetails
    expect(details).toMatchObject({
      ...{ range: '15m', name: { feedID: fine, name: 'fine' }, row: { gaps: 1, state: 'live' } },
      quote: { price: '4', bid: '3', ask: '5', spread: '2', spreadBps: 5000 },
      gaps: [{ cause: 'upstream' }],
      conflicts: [
        {
          first: { origin: expect.stringMatching(/^origin 00[12]$/) },
          other: { origin: expect.stringMatching(/^origin 00[12]$/) },
        },
      ],
    })
    expect(details.prices.widthMs).toBe(7500)
    const known = (values: readonly (number | null)[]) => values.filter(value => value !== null)
    expect(Math.max(...known(details.prices.high))).toBeGreaterThanOrEqual(5)
    expect(known(details.gapCourse.mean).length).toBeGreaterThan(0)
    expect(details.reports.map(({ price }) => price)).toEqual(
      expect.arrayContaining(['1.000000000000000001', '5.000000000000000001']),
    )
    expect(details.changes.map(({ range, by }) => [range, by])).toEqual(
      ['5m', '15m', '1h', '6h'].map(range => [range, '2.999999999999999999']),
    )
    expect((await ask(`/feed?feed=${fine}`)).body).toMatchObject({ range: '5m' })
    await until(() => reader.messages.some(({ samples }) => samples !== undefined))
    const rates = (await ask('/rate?range=1h')).body as RateDetails
    expect([rates.range, rates.rates.widthMs]).toEqual(['1h', 30_000])
    // The test takes ten seconds, and may begin at the end of 30.
    expect([1, 2]).toContain(known(rates.rates.high).length)
    expect(await ask('/feed?feed=other')).toMatchObject({ status: 404 })
    expect(await ask('/feed?feed=__proto__')).toMatchObject({ status: 404 })
    expect(await ask('/rate?range=2h')).toMatchObject({ status: 400 })
    expect(await ask('/rate?range=toString')).toMatchObject({ status: 400 })
  }, 60_000)
})
