import { createClient as createOfficialClient } from '@chainlink/data-streams-sdk'
import { describe, expect, test } from '@jest/globals'
import { jetstreamManager } from '@nats-io/jetstream'
import { createCertificateAuthority } from '@sluice/engine'
import { openRaw, startGateway, token } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, keyOf, startWorld } from '@sluice/test-support/nats/world.js'
import { until } from '@sluice/test-support/waiting.js'
import { createClient, type Report } from 'sluice'
import type { Client } from 'sluice/client'
import { bearerAuth } from 'sluice/plugins/bearer-auth'
import type { DecodedReport } from 'sluice/plugins/decoders'
import type { Gateway } from '../../gateway/index.js'
import { workerPreset } from '../../index.js'

const feeds = [feed(1), feed(2)]

function clientOf({ url, wsURL }: Gateway, more: object = {}): Client<DecodedReport> {
  const client = createClient({
    endpoint: url,
    wsEndpoint: wsURL,
    plugins: [...workerPreset(), bearerAuth({ token })],
    ...more,
  })
  closers.push(() => client.close())
  return client
}

/** A world whose log has a report of each feed. */
async function startFilled() {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  for (const feedID of feeds) engine.publish(feedID)
  await until(() => relay.getMetrics().stored === feeds.length)
  return { world, engine, relay }
}

describe('a gateway', () => {
  test('sends clients what the log holds, byte for byte, each its feeds, with one consumer', async () => {
    const { world, engine } = await startFilled()
    const gateway = await startGateway(world)
    const both = await openRaw(gateway, feeds)
    const one = await openRaw(gateway, [feed(2)])
    expect(both.socket.protocol).toBe('sluice')
    const published = Array.from({ length: 40 }, (_, at) => engine.publish(feed(1 + (at % 2))))
    await until(() => both.frames.length === 40 && one.frames.length === 20)
    const manager = await jetstreamManager(await world.connect())
    for (const [at, { fullReport }] of published.entries()) {
      const stored = await manager.streams.getMessage('SLUICE', { seq: 3 + at })
      expect(both.frames[at]?.equals(stored?.data ?? Buffer.alloc(0))).toBe(true)
      expect(JSON.parse(String(both.frames[at])).report.fullReport).toBe(fullReport)
    }
    expect((await manager.streams.info('SLUICE')).state.consumer_count).toBe(1)
    expect(gateway.getMetrics()).toMatchObject({ connections: 2, sent: 60, slow: 0 })
    one.socket.close()
    await until(() => gateway.getMetrics().connections === 1)
  })

  test('serves the official client, whose API key is the token with its scheme', async () => {
    const inSeconds = `0x0003${'5'.repeat(60)}`
    const world = await startWorld()
    const engine = await world.engine({ feeds: [inSeconds] })
    const relay = await world.relay(engine)
    engine.publish(inSeconds)
    await until(() => relay.getMetrics().stored === 1)
    const { url: endpoint, wsURL: wsEndpoint } = await startGateway(world)
    const urls = { endpoint, wsEndpoint, userSecret: 'unused' }
    const client = createOfficialClient({ ...urls, apiKey: `Bearer ${token}` })
    const stream = client.createStream([inSeconds])
    const seen: string[] = []
    stream.on('report', ({ fullReport }) => void seen.push(fullReport))
    await stream.connect()
    closers.push(() => stream.close())
    const { fullReport } = engine.publish(inSeconds)
    await until(() => seen.includes(fullReport))
    expect(await client.getLatestReport(inSeconds)).toMatchObject({ fullReport })
    expect((await client.listFeeds()).map(({ feedID }) => feedID)).toEqual([inSeconds])
    const bare = createOfficialClient({ ...urls, apiKey: token, retryAttempts: 0 })
    await expect(bare.listFeeds()).rejects.toMatchObject({ statusCode: 401 })
  })

  test('serves a client of this library: streams, requests, and what it missed', async () => {
    const { world, engine } = await startFilled()
    const gateway = await startGateway(world)
    const client = clientOf(gateway)
    expect((await client.listFeeds()).map(({ feedID }) => feedID)).toEqual(feeds)
    const stream = client.createStream(feeds)
    const reports: Report[] = []
    const gaps: unknown[] = []
    stream.on('report', report => void reports.push(report))
    stream.on('gap', gap => void gaps.push(gap))
    stream.on('error', () => undefined)
    await stream.connect()
    const published = Array.from({ length: 10 }, () => engine.publish(feed(1)))
    await until(() => reports.length === 10)
    // The gateway goes, reports are stored meanwhile, and another gateway takes its port.
    const { port } = new URL(gateway.url)
    await gateway.close()
    for (let at = 0; at < 10; at++) published.push(engine.publish(feed(1)))
    await startGateway(world, { port: Number(port) })
    await until(() => stream.getMetrics().activeConnections === 1)
    published.push(engine.publish(feed(1)))
    await until(() => reports.length === published.length)
    expect(reports.map(keyOf).sort()).toEqual(published.map(keyOf).sort())
    expect(gaps).toEqual([])
    expect((await client.getLatestReport(feed(2))).feedID).toBe(feed(2))
  })

  test('goes on where it was when the log is back', async () => {
    const { world, engine, relay } = await startFilled()
    const warnings: string[] = []
    const log = { warn: (message: string) => void warnings.push(message) }
    const gateway = await startGateway(world, { log })
    const { frames } = await openRaw(gateway, feeds)
    engine.publish(feed(1))
    await until(() => frames.length === 1)
    const [node] = world.servers.nodes
    await node.kill()
    const health = async () => (await fetch(`${gateway.url}/health`)).status
    let status = await health()
    expect(status).toBe(200)
    await until(() => {
      void health().then(now => {
        status = now
      })
      return status === 503
    })
    await expect(openRaw(gateway, feeds)).rejects.toThrow('503 the log does not answer')
    for (let at = 0; at < 20; at++) engine.publish(feed(1))
    await node.start()
    await until(() => relay.getMetrics().stored >= 23)
    await until(() => frames.length === 21)
    expect(new Set(frames.map(String)).size).toBe(21)
    expect(await health()).toBe(200)
    expect(warnings).toContainEqual(expect.stringContaining('stream SLUICE did not answer'))
  })

  test('that a client does not read from closes it, and serves the others', async () => {
    const { world } = await startFilled()
    const gateway = await startGateway(world, { limits: { bufferedBytes: 200_000 } })
    const slow = await openRaw(gateway, [feed(1)])
    const quick = await openRaw(gateway, [feed(1)])
    slow.socket.pause()
    const connection = await world.connect()
    const subject = `sluice.3.${feed(1)}`
    const large = Buffer.alloc(60_000, 'x')
    let count = 0
    while (gateway.getMetrics().slow === 0 && count < 2000) {
      connection.publish(subject, large)
      count++
      await until(() => quick.frames.length === count)
    }
    expect(gateway.getMetrics()).toMatchObject({ connections: 1, slow: 1 })
    slow.socket.resume()
    expect(await slow.closed).toBe('1013 too slow: it reads less than is sent')
    connection.publish(subject, large)
    await until(() => quick.frames.length === count + 1)
  })

  test('over TLS shows the certificate that it was given', async () => {
    const { world, engine } = await startFilled()
    const authority = await createCertificateAuthority()
    const { cert, key } = authority.issue({ hosts: ['127.0.0.1'] })
    const gateway = await startGateway(world, { tls: { cert, key } })
    expect(gateway.url).toMatch(/^https:/)
    const client = clientOf(gateway, { tls: { ca: authority.ca } })
    const stream = client.createStream(feeds)
    await stream.connect()
    const { fullReport } = engine.publish(feed(1))
    expect((await stream.read()).fullReport).toBe(fullReport)
    expect((await client.getLatestReport(feed(1))).fullReport).toBe(fullReport)
    await expect(startGateway(world, { tls: { cert, key: cert } })).rejects.toThrow(
      'tls.cert and tls.key are no pair',
    )
  })

  test('that ends says so to its clients', async () => {
    const { world } = await startFilled()
    const gateway = await startGateway(world)
    const { closed } = await openRaw(gateway, feeds)
    await gateway.close()
    expect(await closed).toBe('1001 the gateway ends')
    await expect(fetch(`${gateway.url}/health`)).rejects.toThrow()
  })
})
