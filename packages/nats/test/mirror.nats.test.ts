import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import { jetstreamManager } from '@nats-io/jetstream'
import { memoryCursors } from '@sluice/test-support/memory-cursors.js'
import { openRaw, request, startGateway } from '@sluice/test-support/nats/gateway.js'
import { feed, keyOf, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { queuePreset } from '../index.js'
import { inspectLog } from '../inspection.js'

/** Two servers of NATS, each with a domain of its own. The log is at `hub`, and a mirror at `edge`. */
async function startBoth(): Promise<{ readonly hub: LogWorld; readonly edge: LogWorld }> {
  // The hub keeps its port when it starts again.
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  await once(taken.close(), 'close')
  const leaves = `leafnodes { listen: "127.0.0.1:${port}" }`
  const hub = await startWorld({ jetstream: 'domain: hub', config: leaves })
  const remotes = `[{ url: "nats://127.0.0.1:${port}" }]`
  return {
    hub,
    edge: await startWorld({
      jetstream: 'domain: edge',
      config: `leafnodes { remotes: ${remotes} }`,
    }),
  }
}

async function addMirror({ connect }: LogWorld, settings: object = {}): Promise<void> {
  const { streams } = await jetstreamManager(await connect())
  await streams.add({
    name: 'SLUICE',
    mirror: { name: 'SLUICE', external: { api: '$JS.hub.API', deliver: '' } },
    ...{ storage: 'file', allow_direct: true, ...settings },
  } as Parameters<typeof streams.add>[0])
}

/** A relay at the hub, a mirror at the edge that has so many reports, and a way to publish more. */
async function startMirrored(reports: number) {
  const { hub, edge } = await startBoth()
  const engine = await hub.engine()
  const relay = await hub.relay(engine)
  const publish = (count: number) =>
    Array.from({ length: count }, (_, at) => engine.publish(feed(1 + (at % 2))))
  const published = publish(reports)
  await until(() => relay.getMetrics().stored === reports)
  await addMirror(edge)
  const { streams } = await jetstreamManager(await edge.connect())
  while ((await streams.info('SLUICE')).state.messages < reports);
  return { hub, edge, engine, publish, published }
}

describe('a mirror of the log in another domain', () => {
  test('is read by workers, with their cursors and requests', async () => {
    const { edge, publish, published } = await startMirrored(20)
    const cursors = memoryCursors()
    const [first, second] = published
    cursors.saved = {
      [feed(1)]: first?.observationsTimestamp as number,
      [feed(2)]: second?.observationsTimestamp as number,
    }
    const worker = await edge.worker({ stream: { cursors } })
    const more = publish(30)
    await until(() => worker.reports.length >= 48)
    const wanted = [...published.slice(2), ...more].map(keyOf)
    expect(worker.reports.map(keyOf).sort()).toEqual(wanted.sort())
    expect([worker.gaps, worker.errors]).toEqual([[], []])
    expect((await worker.client.listFeeds()).map(({ feedID }) => feedID)).toEqual([
      feed(1),
      feed(2),
    ])
    const latest = await worker.client.getLatestReport(feed(1))
    expect(latest.observationsTimestamp).toBe(more[28]?.observationsTimestamp)
    const start = second?.observationsTimestamp as number
    const page = await worker.client.getReportsPage(feed(2), start, 5)
    expect(page).toHaveLength(5)
  })

  test('is read by a queue and by a gateway', async () => {
    const { edge, publish } = await startMirrored(2)
    const worker = await edge.worker({ plugins: queuePreset(), wire: { queue: 'desk' } })
    const gateway = await startGateway(edge)
    const page = await openRaw(gateway, [feed(1), feed(2)])
    publish(20)
    await until(() => worker.reports.length === 20 && page.frames.length === 20)
    const { status } = await request(gateway, `/api/v1/reports/latest?feedID=${feed(1)}`)
    expect(status).toBe(200)
    expect(gateway.health.problems).toEqual([])
  })

  test('goes on without the hub, and catches up', async () => {
    const { hub, edge, engine } = await startMirrored(2)
    const worker = await edge.worker()
    const [node] = hub.servers.nodes
    await node.stop()
    expect((await worker.client.getLatestReport(feed(1))).feedID).toBe(feed(1))
    await node.start()
    for (let at = 0; at < 10; at++) engine.publish(feed(1))
    await until(() => worker.reports.length === 10)
    expect(worker.gaps).toEqual([])
  })

  test('takes no relay, and serves its readers for the doctor', async () => {
    const { edge, engine } = await startMirrored(2)
    expect((await failureOf(edge.relay(engine))).message).toBe(
      'stream SLUICE does not serve: mirror must not be set: relays publish to SLUICE, where it copies from',
    )
    const connection = await edge.connect()
    expect(await inspectLog({ connection }, [], 5)).toMatchObject({ messages: 2, wrong: [] })
  })
})

test('a mirror without direct reads does not serve', async () => {
  const { edge, hub } = await startBoth()
  await hub.relay(await hub.engine())
  await addMirror(edge, { allow_direct: false })
  const connection = await edge.connect()
  expect((await inspectLog({ connection }, [], 5)).wrong).toEqual(['allow_direct must be true'])
})
