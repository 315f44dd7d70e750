import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { type Connect, connectSocket } from '../../client/transport/socket.js'
import { createClient, defaultPreset } from '../../index.js'
import { until } from '../support/waiting.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'

/** As a browser's WebSocket: it sends no pings, and shows none. */
const withoutPings: Connect = async (upgrade, events) => {
  const {
    ping: _,
    pong: _too,
    ...socket
  } = await connectSocket(upgrade, {
    ...events,
    alive: () => undefined,
  })
  return socket
}

test.each([
  [connectSocket, 1],
  [withoutPings, 0],
])(
  'a quiet connection is pinged, or left alone where there are no pings: %p',
  async (connect, lost) => {
    const engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const plugins = defaultPreset({ apiKey, userSecret })
    const client = createClient({ endpoint, wsEndpoint, plugins, connect })
    try {
      const stream = client.createStream(ethUsd, { pingInterval: 20, missedPings: 2 })
      await stream.connect()
      let count = 0
      stream.on('disconnected', () => count++)
      engine.blackhole(true)
      if (lost > 0) await until(() => count > 0)
      else await sleep(400)
      engine.blackhole(false)
      await sleep(100)
      expect(count).toBe(lost)
    } finally {
      await client.close()
      await engine.close()
    }
  },
)
