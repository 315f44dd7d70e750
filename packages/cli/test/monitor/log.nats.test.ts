import { expect, test } from '@jest/globals'
import { startCommand } from '@sluice/test-support/command.js'
import { closers, feed, startWorld } from '@sluice/test-support/nats/world.js'
import { until } from '@sluice/test-support/waiting.js'
import { follow } from '../support/monitor/follow.js'

test('sluice monitor shows a log: its feeds, and that it is lost', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  for (const feedID of engine.feeds) engine.publish(feedID)
  await until(() => relay.getMetrics().stored === 2)

  const { servers } = world.servers
  const args = ['monitor', '--nats', String(servers), '--port', '0', '--metrics', '0']
  const { child, output, ended } = startCommand(args)
  await until(() => output.out.includes('Ctrl-C ends it'))
  const [, metrics = ''] = /^sluice: metrics are at (\S+)\/metrics\n$/.exec(output.err) ?? []
  const ready = await fetch(`${metrics}/ready`)
  expect([ready.status, await ready.text()]).toEqual([200, 'monitor: ready\n'])
  expect(await (await fetch(`${metrics}/metrics`)).text()).not.toContain('nats.invalid')
  const reader = follow(Number(/127\.0\.0\.1:(\d+)/.exec(output.out)?.[1]))
  closers.push(reader.stop)
  await until(() => reader.latest('origins')?.status === 'connected')
  for (const feedID of engine.feeds) engine.publish(feedID, { price: 4_200_000_000_000_000_000n })
  await until(() => reader.latest('verdict')?.level === 'ok')
  expect(reader.latest('verdict')?.facts[0]).toBe('2 feeds, all live')
  const index = reader.messages
    .flatMap(({ names = [] }) => names)
    .find(({ feedID }) => feedID === feed(1))?.index
  await until(() => reader.latest('feeds', index)?.price === '4.2000')
  const plugins = reader.messages.flatMap(({ stack = [] }) => stack.map(({ name }) => name))
  expect([...new Set(plugins)]).toEqual(['logging', 'decoders', 'continuity', 'dedup', 'retry'])
  expect(reader.latest('about')?.source).toMatch(/^the log SLUICE at 127\.0\.0\.1:\d+$/)

  await world.servers.nodes[0].kill()
  await until(() => reader.latest('verdict')?.level === 'down')
  child.kill('SIGINT')
  expect(await ended).toMatchObject({ code: 0 })
}, 60_000)
