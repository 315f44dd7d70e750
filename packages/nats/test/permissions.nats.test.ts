import { describe, expect, test } from '@jest/globals'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { openRaw, request, startGateway } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import { createClient } from 'sluice'
import {
  createRelay,
  natsCursors,
  natsWire,
  queuePreset,
  republishDeadLetters,
  workerPreset,
} from '../index.js'
import { serverConfig } from './support/permissions.js'

const feeds = [feed(1), feed(2)]

/** Connects as one of the users. */
async function connectAs(world: LogWorld, user: string): Promise<NatsConnection> {
  const { servers } = world.servers
  const connection = await connect({ servers, user, pass: user, inboxPrefix: `_INBOX_${user}` })
  closers.push(() => connection.close())
  return connection
}

/** A world whose users have the permissions of the documentation, and no other. */
async function startGuarded() {
  const world = await startWorld({ config: serverConfig() })
  const engine = await world.engine()
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const config = { apiKey, userSecret, endpoint, wsEndpoint, haMode: false }
  const relay = await createRelay({
    config,
    connection: await connectAs(world, 'relay'),
    feedIDs: feeds,
    create: true,
  })
  closers.push(() => relay.close())
  const publish = async (count: number): Promise<void> => {
    const { stored } = relay.getMetrics()
    for (let at = 0; at < count; at++) engine.publish(feed(1 + (at % 2)))
    await until(() => relay.getMetrics().stored >= stored + count)
  }
  await publish(4)
  return { world, engine, relay, publish }
}

const violationsOf = ({ servers }: LogWorld): readonly string[] =>
  servers.nodes[0].output.match(/.*Violation.*/g) ?? []

describe('with the permissions of the documentation', () => {
  test('a relay stores, and goes on where it was', async () => {
    const { world, engine, relay, publish } = await startGuarded()
    await publish(10)
    await relay.close()
    engine.publish(feed(1))
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const next = await createRelay({
      config: { apiKey, userSecret, endpoint, wsEndpoint, haMode: false },
      connection: await connectAs(world, 'relay'),
      feedIDs: feeds,
    })
    closers.push(() => next.close())
    await until(() => next.getMetrics().stored >= 1)
    expect(violationsOf(world)).toEqual([])
  })

  test('workers and gateways read, and do not write', async () => {
    const { world, publish } = await startGuarded()
    const connection = await connectAs(world, 'worker')
    const client = createClient({ ...natsWire(connection), plugins: workerPreset() })
    closers.push(() => client.close())
    const stream = client.createStream(feeds, { cursors: natsCursors(connection, { key: 'one' }) })
    let received = 0
    stream.on('report', () => {
      received++
    })
    await stream.connect()
    const gateway = await startGateway(world, { connection: await connectAs(world, 'gateway') })
    const raw = await openRaw(gateway, feeds)
    await publish(10)
    await until(() => received >= 10 && raw.frames.length === 10)
    expect(await client.listFeeds()).toHaveLength(2)
    const { observationsTimestamp: time } = await client.getLatestReport(feed(1))
    await client.getReportByTimestamp(feed(1), time)
    await client.getReportsPage(feed(1), time - 3, 3)
    await client.getReportsBulk(feeds, time)
    expect((await request(gateway, '/api/v1/feeds')).status).toBe(200)
    await stream.close()
    expect(violationsOf(world)).toEqual([])
    // What they must not do, the server prevents.
    for (const user of ['worker', 'gateway', 'queue']) {
      const other = await connectAs(world, user)
      for (const subject of [`sluice.3.${feed(1)}`, '$JS.API.STREAM.DELETE.SLUICE'])
        other.publish(subject, '{}')
      await other.flush()
    }
    await until(() => violationsOf(world).length === 6)
    await pause(50)
    expect((await client.listFeeds()).length).toBe(2)
  })

  test('workers of a queue take and acknowledge', async () => {
    const { world, publish } = await startGuarded()
    const connection = await connectAs(world, 'queue')
    const wire = natsWire(connection, { queue: 'desk', redeliverAfter: 1 })
    const client = createClient({ ...wire, plugins: queuePreset() })
    closers.push(() => client.close())
    const stream = client.createStream(feeds)
    const times: number[] = []
    stream.on('report', ({ observationsTimestamp }) => void times.push(observationsTimestamp))
    await stream.connect()
    await publish(10)
    await until(() => times.length >= 10)
    // What was acknowledged does not come again.
    await pause(1500)
    expect(times).toHaveLength(10)
    // One that has joined, one that waits, a dead letter, and that again.
    const late = client.createStream([...feeds, feed(3)])
    late.on('report', () => pause(1500))
    await late.connect()
    const raw = await connectAs(world, 'relay')
    raw.publish(`sluice.3.${feed(3)}`, 'no frame')
    await until(() => late.getMetrics().deadLetters === 1)
    expect(await republishDeadLetters(await connectAs(world, 'letters'), { queue: 'desk' })).toBe(1)
    await until(() => stream.getMetrics().deadLetters + late.getMetrics().deadLetters === 2)
    await publish(4)
    await pause(2000)
    expect(stream.getMetrics().redelivered + late.getMetrics().redelivered).toBeLessThan(10)
    expect(violationsOf(world)).toEqual([])
  })
})
