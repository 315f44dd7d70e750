import { createRelay } from '@sluice/nats'
import { connection, note, setting } from './setting.mjs'

const relay = await createRelay({
  config: setting.config,
  connection,
  feedIDs: setting.feeds,
  name: setting.name,
  create: { replicas: setting.replicas },
  ...setting.relay,
})
relay.stream.on('error', ({ message }) => note(`error ${message}`))
relay.stream.on('gap', gap => note(`gap ${JSON.stringify(gap)}`))
note('open')
setInterval(() => {
  const { rss } = process.memoryUsage()
  note(
    `metrics ${JSON.stringify({ ...relay.getMetrics(), received: relay.stream.getMetrics().accepted, rss })}`,
  )
}, 1000)
await relay.closed
