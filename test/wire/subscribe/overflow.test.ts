import { expect, test } from '@jest/globals'
import { type Connect, connectSocket } from '../../../client/transport/socket.js'
import { createClient, defaultPreset } from '../../../index.js'
import { failureOf, until } from '../../support/waiting.js'
import { a, b, closers, start } from '../../support/wire/subscribe.js'

/** Ends the first connection 300 ms late, and opens the others 150 ms late. */
function createSlowConnect(): Connect {
  let count = 0
  return function connectSlowly(upgrade, events) {
    const isFirst = count++ === 0
    return connectSocket(upgrade, {
      ...events,
      opened: () => void (isFirst ? events.opened() : setTimeout(events.opened, 150)),
      ended: (...given) => void setTimeout(() => events.ended(...given), isFirst ? 300 : 0),
    })
  }
}

test('a stream that overflows while its feeds change ends', async () => {
  const engine = await start({ intervalMs: 0 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const plugins = defaultPreset({ apiKey, userSecret })
  const client = createClient({ endpoint, wsEndpoint, plugins, connect: createSlowConnect() })
  closers.push(() => client.close())
  const stream = client.createStream(a, { queue: 2, overflow: 'close' })
  const closed = failureOf(stream.closed)
  await stream.connect()
  const subscribed = failureOf(stream.subscribe(b))
  await until(() => engine.connections === 2)
  for (let count = 0; count < 4; count++) engine.publish(a)
  expect(await closed).toMatchObject({ code: 'OVERFLOW' })
  expect(await subscribed).toMatchObject({ code: expect.any(String) })
})
