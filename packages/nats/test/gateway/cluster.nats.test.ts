import { expect, test } from '@jest/globals'
import { openRaw, startGateway } from '@sluice/test-support/nats/gateway.js'
import { feed, startWorld } from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import type { Relay } from '../../index.js'

test('a gateway goes on when a server of its log is killed, whichever of three it is', async () => {
  const world = await startWorld({ nodes: 3 })
  const engine = await world.engine()
  let relay: Relay | undefined
  // The servers elect their leader.
  while (relay === undefined)
    relay = await world.relay(engine, { create: { replicas: 3 } }).catch(() => undefined)
  const { getMetrics } = relay
  engine.publish(feed(1))
  await until(() => getMetrics().stored === 1)
  const { frames } = await openRaw(await startGateway(world), [feed(1)])
  let count = 0
  for (const node of world.servers.nodes) {
    await node.kill()
    for (let at = 0; at < 50; at++) {
      engine.publish(feed(1))
      count++
      await pause(20)
    }
    await until(() => frames.length >= count)
    await node.start()
    await pause(1000)
  }
  expect(frames).toHaveLength(count)
  expect(new Set(frames.map(String)).size).toBe(count)
}, 240_000)
