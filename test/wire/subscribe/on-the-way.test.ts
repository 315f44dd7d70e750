import { connect, createServer, type Socket } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import type { Plugin } from '../../../client/index.js'
import { pause, until } from '../../support/waiting.js'
import {
  a,
  b,
  closers,
  expectExact,
  keyOf,
  open,
  published,
  start,
} from '../../support/wire/subscribe.js'

/** Passes connections on, each with so many milliseconds on the way to the client. */
async function startSlowWay(to: string, delays: readonly number[]): Promise<string> {
  const sockets = new Set<Socket>()
  let accepted = 0
  const server = createServer(function pass(client) {
    const ms = delays[accepted++] ?? 0
    const upstream = connect(Number(new URL(to).port), '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
    }
    client.pipe(upstream)
    upstream.on('data', data => setTimeout(() => client.write(data), ms))
    upstream.on('close', () => setTimeout(() => client.end(), ms))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  closers.push(
    () =>
      new Promise(resolve => {
        for (const socket of sockets) socket.destroy()
        server.close(resolve)
      }),
  )
  const address = server.address()
  return `ws://127.0.0.1:${address !== null && typeof address === 'object' ? address.port : 0}`
}

describe('what is on its way', () => {
  test.each([120, 380])('for %d ms on the old connection is not lost', async ms => {
    const engine = await start({ intervalMs: 0 })
    const wsEndpoint = await startSlowWay(engine.wsEndpoint, [ms, 0])
    const { stream, seen } = open(engine, [a], {}, { wsEndpoint })
    await stream.connect()
    for (let count = 0; count < 50; count++) engine.publish(a)
    await stream.subscribe(b)
    expect(seen.reports).toEqual([])
    await until(() => engine.connections === 1)
    await pause(ms)
    expectExact(seen.reports, published(engine, a))
    expect(seen.reports).toHaveLength(50)
  })

  test('to a reader who is far behind is not lost', async () => {
    const engine = await start({ intervalMs: 0 })
    const { stream } = open(engine, [a], { queue: 8 })
    const read: string[] = []
    let isSlow = true
    const reading = (async function readSlowly() {
      for await (const report of stream) {
        read.push(keyOf(report))
        if (isSlow) await pause(20)
      }
    })()
    await stream.connect()
    for (let count = 0; count < 300; count++) engine.publish(a)
    await pause(100)
    await stream.subscribe(b)
    for (let count = 0; count < 50; count++) engine.publish(a)
    await until(() => engine.connections === 1)
    isSlow = false
    await until(() => read.length >= 350)
    expectExact(read, published(engine, a))
    await stream.close()
    await reading
  })

  test('of a feed that is no longer subscribed is neither delivered nor an error', async () => {
    const engine = await start({ intervalMs: 0 })
    const wsEndpoint = await startSlowWay(engine.wsEndpoint, [120, 0])
    const { stream, seen } = open(engine, [a, b], {}, { wsEndpoint })
    await stream.connect()
    for (let count = 0; count < 10; count++) {
      engine.publish(a)
      engine.publish(b)
    }
    await stream.unsubscribe(b)
    await until(() => engine.connections === 1)
    await pause(120)
    expect(seen.reports).toEqual(published(engine, a))
    expect(seen.errors).toEqual([])
    expect(stream.getMetrics()).toMatchObject({ accepted: 10, malformed: 0 })
  })

  test('and delayed by a plugin until its feed is no longer subscribed is not delivered', async () => {
    const engine = await start({ intervalMs: 0 })
    const late: Plugin = {
      name: 'late',
      report: next => report => void setTimeout(() => next(report), 50),
    }
    const { stream, seen } = open(engine, [a, b], {}, { plugins: [late] })
    await stream.connect()
    engine.publish(a)
    engine.publish(b)
    await until(() => Object.values(stream.getMetrics().origins)[0]?.received === 2)
    void stream.unsubscribe(b)
    await pause(100)
    expect(seen.reports).toEqual(published(engine, a))
  })
})
