import { beforeEach, describe, expect, test } from '@jest/globals'
import { jetstream } from '@nats-io/jetstream'
import { hashOf, request, startGateway, token } from '@sluice/test-support/nats/gateway.js'
import { feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { pause } from '@sluice/test-support/waiting.js'
import { sampleReport } from 'sluice/testing'
import type { Gateway } from '../../gateway/index.js'

const FEEDS = 20
const SECONDS = 300
const feeds = Array.from({ length: FEEDS }, (_, index) => feed(index))
const second = { authorization: 'Bearer second' }

/** A world whose log has a report of each feed and second, and the observation of the first. */
async function startFull(): Promise<{ readonly world: LogWorld; readonly start: number }> {
  const world = await startWorld()
  const log = jetstream(await world.connect())
  const manager = await log.jetstreamManager()
  const subjects = ['sluice.*.*']
  await manager.streams.add({ name: 'SLUICE', subjects, allow_direct: true })
  const start = Date.now() - 1000 * SECONDS
  for (let at = 0; at < SECONDS; at++)
    await Promise.all(
      feeds.map(feedID => {
        const observationsTimestamp = start + 1000 * at
        const validFromTimestamp = observationsTimestamp - 999
        const report = sampleReport({ feedID, observationsTimestamp, validFromTimestamp })
        const { fullReport } = report
        const fields = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
        return log.publish(`sluice.3.${feedID}`, JSON.stringify({ report: fields }))
      }),
    )
  return { world, start }
}

const bulk = (time: number): string => `/api/v1/reports/bulk?feedIDs=${feeds}&timestamp=${time}`

describe('a gateway', () => {
  let world: LogWorld
  let start: number
  beforeEach(async () => {
    ;({ world, start } = await startFull())
  }, 60_000)

  test('asks the log nothing for a time before its beginning, once it has looked', async () => {
    const connection = await world.connect()
    const gateway = await startGateway(world, { connection })
    const asked = async (gateway: Gateway, path: string) => {
      const { outMsgs, inMsgs } = connection.stats()
      const answer = await request(gateway, path)
      const { reports } = (await answer.json()) as { readonly reports: readonly object[] }
      const now = connection.stats()
      return {
        status: answer.status,
        reports: reports.length,
        queries: now.outMsgs - outMsgs,
        messages: now.inMsgs - inMsgs,
      }
    }
    const first = await asked(gateway, bulk(start - 5000))
    expect(first).toMatchObject({ status: 206, reports: 0 })
    // It reads one batch of each feed, and not all of the 300.
    expect(first.messages).toBeLessThan(FEEDS * 80)
    const again = await asked(gateway, bulk(start - 86_400_000))
    expect(again).toMatchObject({ status: 206, reports: 0 })
    expect(again.messages).toBeLessThan(10)
    const within = await asked(gateway, bulk(start + 10_000))
    expect(within).toMatchObject({ status: 200, reports: FEEDS })
    const page = `/api/v1/reports/page?feedID=${feed(1)}&startTimestamp=1&limit=10`
    const paged = await asked(gateway, page)
    expect(paged).toMatchObject({ status: 200, reports: 10 })
    expect(paged.messages).toBeLessThan(80)
  }, 60_000)

  test('bounds the reports that the open requests of a token ask for', async () => {
    const gateway = await startGateway(world, {
      limits: { reportsPerToken: FEEDS },
      tokens: { one: { sha256: hashOf(token) }, two: { sha256: hashOf('second') } },
    })
    const answers = await Promise.all([
      ...Array.from({ length: 4 }, () => request(gateway, bulk(start + 10_000))),
      request(gateway, bulk(start + 10_000), second),
    ])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 429, 429, 429])
    expect(answers.at(-1)?.status).toBe(200)
    const rejected = answers.find(({ status }) => status === 429)
    expect(rejected?.headers.get('retry-after')).toBe('1')
    expect(await rejected?.json()).toEqual({
      message: `the token has requests for ${FEEDS} reports open already`,
    })
    expect((await request(gateway, bulk(start + 10_000))).status).toBe(200)
  }, 60_000)

  test('knows the latest report of a feed once it has looked, and takes what comes later', async () => {
    const connection = await world.connect()
    const gateway = await startGateway(world, { connection })
    const writer = await world.connect()
    const path = `/api/v1/reports/latest?feedID=${feed(1)}`
    const latest = async () => {
      const { outMsgs } = connection.stats()
      const { report } = (await (await request(gateway, path)).json()) as {
        readonly report: { readonly observationsTimestamp: number; readonly fullReport: string }
      }
      return { ...report, queries: connection.stats().outMsgs - outMsgs }
    }
    const newest = start + 1000 * (SECONDS - 1)
    expect(await latest()).toMatchObject({ observationsTimestamp: newest })
    const publish = async (observationsTimestamp: number, forged?: number) => {
      const validFromTimestamp = observationsTimestamp - 999
      const times = { observationsTimestamp, validFromTimestamp }
      const { fullReport } = sampleReport({ feedID: feed(1), ...times })
      const fields = { feedID: feed(1), fullReport, validFromTimestamp }
      const end = { observationsTimestamp: forged ?? observationsTimestamp }
      await jetstream(writer).publish(
        `sluice.3.${feed(1)}`,
        JSON.stringify({ report: { ...fields, ...end } }),
      )
      await pause(100)
    }
    // The consumer of all pages asks for messages, too: few, and none for a request.
    const few = 3
    expect((await latest()).queries).toBeLessThan(few)
    await publish(newest + 2000)
    expect(await latest()).toMatchObject({ observationsTimestamp: newest + 2000 })
    expect((await latest()).queries).toBeLessThan(few)
    await publish(newest + 1000)
    expect(await latest()).toMatchObject({ observationsTimestamp: newest + 2000 })
    await jetstream(writer).publish(`sluice.3.${feed(1)}`, 'no report')
    // A message whose end gives another time than its report is no proof: the log is asked.
    await publish(newest + 1500, newest + 9000)
    expect(await latest()).toMatchObject({ observationsTimestamp: newest + 2000 })
    await publish(newest + 3000)
    expect(await latest()).toMatchObject({ observationsTimestamp: newest + 3000 })
  }, 60_000)

  test('keeps room for a further holder while others ask for all they may', async () => {
    const names = Array.from({ length: 16 }, (_, index) => `hostile-${index}`)
    const tokens = Object.fromEntries(
      ['other', ...names].map(name => [name, { sha256: hashOf(name) }]),
    )
    const limits = { readsPerSecond: 100_000 }
    const gateway = await startGateway(world, { tokens, limits })
    const as = (name: string) => ({ authorization: `Bearer ${name}` })
    const attacks = names.flatMap(name =>
      Array.from({ length: 16 }, async (_, index) => {
        const path = bulk(index % 2 === 0 ? start + 10_000 : start - 86_400_000)
        const answer = await request(gateway, path, as(name))
        await answer.arrayBuffer()
        return answer.status
      }),
    )
    await pause(20)
    const page = `/api/v1/reports/page?feedID=${feed(1)}&startTimestamp=${start + 10_000}`
    for (let count = 0; count < 5; count++)
      expect((await request(gateway, page, as('other'))).status).toBe(200)
    const statuses = await Promise.all(attacks)
    expect(statuses).toContain(200)
    expect(statuses).toContain(429)
  }, 60_000)

  test('rejects a token that has read too much, until it may read again', async () => {
    const gateway = await startGateway(world, {
      // The second page is too early for four seconds, which no machine takes between the two.
      limits: { readsPerSecond: 50 },
      tokens: { one: { sha256: hashOf(token) }, two: { sha256: hashOf('second') } },
    })
    const page = `/api/v1/reports/page?feedID=${feed(1)}&startTimestamp=${start}&limit=200`
    expect((await request(gateway, page)).status).toBe(200)
    const rejected = await request(gateway, page)
    expect([rejected.status, await rejected.json()]).toEqual([
      429,
      { message: 'the token has read too much of the log' },
    ])
    const wait = Number(rejected.headers.get('retry-after'))
    expect(wait).toBeGreaterThanOrEqual(1)
    expect(wait).toBeLessThan(6)
    expect((await request(gateway, page, second)).status).toBe(200)
    await pause(1000 * wait)
    expect((await request(gateway, page)).status).toBe(200)
  }, 60_000)
})
