// A worker of a queue, as a user writes it. The file `mode` says how its handler behaves.
import { readFileSync } from 'node:fs'
import { connect } from '@nats-io/transport-node'
import { natsWire, queuePreset, workerHealth } from '@sluice/nats'
import { createClient } from 'sluice'
import { serveHealth } from 'sluice/health'
import { prometheus } from 'sluice/plugins/prometheus'

const { servers, feeds, port, mode } = JSON.parse(process.argv[2])
const say = level => message => process.stderr.write(`${level} ${message}\n`)
const log = { info: say('info'), warn: say('warn'), error: say('error') }

const server = await serveHealth({ port })
say('info')(`metrics are at ${server.url}/metrics`)
const connection = await connect({
  servers,
  maxReconnectAttempts: -1,
  reconnectTimeWait: 200,
})
const client = createClient({
  ...natsWire(connection, { queue: 'pricing', redeliverAfter: 5 }),
  plugins: [prometheus({ register: server.register }), ...queuePreset()],
})
const stream = client.createStream(feeds, { maxReconnectAttempts: Number.POSITIVE_INFINITY })
server.add(workerHealth(stream, { connection, queue: 'pricing', log }))
stream.on('error', () => undefined)
stream.on('report', async () => {
  while (readFileSync(mode, 'utf8') === 'stuck')
    await new Promise(resolve => setTimeout(resolve, 200))
})
await stream.connect()
process.on('SIGTERM', () => process.exit())
