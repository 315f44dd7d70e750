import { expect, test } from '@jest/globals'
import { request, startGateway } from '@sluice/test-support/nats/gateway.js'
import { feed, startWorld } from '@sluice/test-support/nats/world.js'
import { operations } from '@sluice/test-support/openapi.js'
import { until } from '@sluice/test-support/waiting.js'

test('a gateway answers the operations of the service as docs/openapi.yaml has them', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  for (const index of [1, 2]) engine.publish(feed(index))
  await until(() => relay.getMetrics().stored === 2)
  const [first] = engine.ledger()
  const time = first?.observationsTimestamp as number
  const gateway = await startGateway(world, {})
  const cases: Readonly<Record<string, readonly (readonly [string, number])[]>> = {
    listFeeds: [['', 200]],
    getLatestReport: [
      [`?feedID=${feed(1)}`, 200],
      [`?feedID=${feed(9)}`, 404],
      ['', 400],
      ['?feedID=0x03', 400],
    ],
    getReportByTimestamp: [
      [`?feedID=${feed(1)}&timestamp=${time}`, 200],
      [`?feedID=${feed(1)}`, 400],
      [`?feedID=${feed(1)}&timestamp=yesterday`, 400],
    ],
    getReportsPage: [
      [`?feedID=${feed(1)}&startTimestamp=${time}&limit=5`, 200],
      [`?feedID=${feed(1)}&startTimestamp=-1`, 400],
      [`?startTimestamp=${time}`, 400],
    ],
    getReportsBulk: [
      [`?feedIDs=${feed(1)},${feed(9)}&timestamp=${time}`, 206],
      [`?feedIDs=${feed(1)},0x03&timestamp=${time}`, 400],
      [`?feedIDs=${feed(1)}`, 400],
    ],
  }
  const served = [...operations.values()].filter(({ tags }) =>
    tags.some(tag => ['feeds', 'reports'].includes(tag)),
  )
  expect(served.map(({ id }) => id).sort()).toEqual(Object.keys(cases).sort())
  for (const operation of served) {
    const check = async (answer: Response, status: number, what: string): Promise<void> => {
      const type = answer.headers.get('content-type') ?? ''
      const wrong = operation.refuse(answer.status, type, await answer.json())
      expect([operation.id, what, answer.status, wrong]).toEqual([
        operation.id,
        what,
        status,
        undefined,
      ])
    }
    for (const [query, status] of cases[operation.id] ?? [])
      await check(await request(gateway, `${operation.path}${query}`), status, query)
    const [query] = cases[operation.id]?.[0] ?? ['']
    await check(await fetch(`${gateway.url}${operation.path}${query}`), 401, 'no token')
  }
})
