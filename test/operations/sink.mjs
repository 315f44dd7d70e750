// A sink over a store of a user's own. The file `mode` says how the store behaves.
import { readFileSync } from 'node:fs'
import { createClient, defaultPreset } from 'sluice'
import { serveHealth, sinkHealth } from 'sluice/health'
import { prometheus } from 'sluice/plugins/prometheus'
import { sink } from 'sluice/plugins/sink'

const { service, feeds, port, mode } = JSON.parse(process.argv[2])
const say = level => message => process.stderr.write(`${level} ${message}\n`)
const log = { info: say('info'), warn: say('warn'), error: say('error') }

const store = {
  name: 'the store',
  open: async () => undefined,
  async write({ reports }) {
    const how = readFileSync(mode, 'utf8')
    if (how === 'away') throw new Error('the store is away')
    return how === 'full'
      ? reports.map(report => ({ report, reason: 'price needs more digits than a column holds' }))
      : []
  },
  close: async () => undefined,
}

const server = await serveHealth({ port })
say('info')(`metrics are at ${server.url}/metrics`)
const { endpoint, wsEndpoint, apiKey, userSecret } = service
const stored = sink(store)
const client = createClient({
  endpoint,
  wsEndpoint,
  plugins: [
    prometheus({ register: server.register }),
    stored,
    ...defaultPreset({ apiKey, userSecret }),
  ],
})
const stream = client.createStream(feeds, { maxReconnectAttempts: Number.POSITIVE_INFINITY })
server.add(sinkHealth(stored, { log }))
stream.on('error', () => undefined)
await stream.connect()
process.on('SIGTERM', () => process.exit())
