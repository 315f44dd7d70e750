import { natsCursors, natsWire, queuePreset, workerPreset } from '@sluice/nats'
import { createClient } from 'sluice'
import { connection, note, setting } from './setting.mjs'

const { queue, feeds, name, replicas } = setting
const wire = queue === undefined ? {} : { queue, redeliverAfter: 5 }
const client = createClient({
  ...natsWire(connection, wire),
  plugins: queue === undefined ? workerPreset() : queuePreset(),
})

/** Cursors, and a note of what was loaded. */
function notedCursors() {
  const cursors = natsCursors(connection, { key: name, replicas })
  return {
    ...cursors,
    async load() {
      const loaded = await cursors.load()
      note(`cursors ${JSON.stringify(loaded)}`)
      return loaded
    },
  }
}

const stream = client.createStream(feeds, {
  maxReconnectAttempts: Number.POSITIVE_INFINITY,
  ...(queue === undefined ? { cursors: notedCursors() } : {}),
})
stream.on('report', ({ feedID, observationsTimestamp }) =>
  note(`report ${feedID}@${observationsTimestamp}`),
)
stream.on('error', ({ message }) => note(`error ${message}`))
stream.on('gap', gap => note(`gap ${JSON.stringify(gap)}`))
await stream.connect()
note('open')
await stream.closed
