import { createClient } from 'sluice'
import { natsCursors, natsWire, queuePreset, workerPreset } from 'sluice/nats'
import { connection, note, setting } from './setting.mjs'

const { queue, feeds, name, replicas } = setting
const wire = queue === undefined ? {} : { queue, redeliverAfter: 5 }
const client = createClient({
  ...natsWire(connection, wire),
  plugins: queue === undefined ? workerPreset() : queuePreset(),
})
note(`start ${Date.now()}`)
const stream = client.createStream(feeds, {
  maxReconnectAttempts: Number.POSITIVE_INFINITY,
  ...(queue === undefined ? { cursors: natsCursors(connection, { key: name, replicas }) } : {}),
})
stream.on('report', ({ feedID, observationsTimestamp }) =>
  note(`report ${feedID}@${observationsTimestamp}`),
)
stream.on('error', ({ message }) => note(`error ${message}`))
stream.on('gap', gap => note(`gap ${JSON.stringify(gap)}`))
await stream.connect()
note('open')
stream.on('status', status => {
  if (status.type !== 'stale')
    note(`status ${Date.now()} ${status.type} ${status.error?.message ?? ''}`)
})
await stream.closed
