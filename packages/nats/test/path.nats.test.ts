import { expect, test } from '@jest/globals'
import { feed, keyOf, startWorld } from '@sluice/test-support/nats/world.js'
import { until } from '@sluice/test-support/waiting.js'

test('a report goes from the service through the log to a worker, once, with the bytes that were signed', async () => {
  const world = await startWorld()
  const engine = await world.engine({ origins: 2 })
  const relay = await world.relay(engine)
  const [one, other] = [await world.worker(), await world.worker()]
  const published = Array.from({ length: 50 }, (_, index) => engine.publish(feed(1 + (index % 2))))
  for (const { reports } of [one, other]) {
    await until(() => reports.length === 50)
    expect(reports.map(keyOf).sort()).toEqual(published.map(keyOf).sort())
    expect(reports.map(({ fullReport }) => fullReport).sort()).toEqual(
      published.map(({ fullReport }) => fullReport).sort(),
    )
    expect(reports[0]?.decoded).toMatchObject({ version: 'V3' })
  }
  expect(one.errors).toEqual([])
  await until(() => relay.getMetrics().unacknowledged === 0)
  expect(relay.getMetrics()).toMatchObject({
    stored: 50,
    duplicates: 0,
    unacknowledged: 0,
    rejected: 0,
  })
})
