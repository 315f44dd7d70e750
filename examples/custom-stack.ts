// A custom stack: only the plugins that this program needs, and one that measures the age of
// arriving reports.

import { startDataEngine } from '@sluice/engine'
import { createClient, decoders, hmacAuth, type Plugin, retry, v3 } from 'sluice'

const engine = await startDataEngine({ intervalMs: 1000 })
const { apiKey, userSecret, endpoint, wsEndpoint } = engine
const [ethUsd] = engine.feeds as [string]

/** The state of a stream lives inside `report`: streams that share the plugin do not share it. */
function lag(onWorst: (seconds: number) => void): Plugin {
  return {
    name: 'lag',
    report: next => {
      let worst = 0
      return function measureLag(report) {
        const seconds = Date.now() / 1000 - report.observationsTimestamp
        if (seconds > worst) {
          worst = seconds
          onWorst(worst)
        }
        next(report)
      }
    },
  }
}

const client = createClient({
  endpoint,
  wsEndpoint,
  plugins: [
    lag(worst => console.log(`worst lag ${worst.toFixed(3)} s`)),
    decoders(v3),
    retry({ attempts: 10, delay: 250 }),
    hmacAuth({ apiKey, userSecret }),
  ],
})
console.log(String(client.stack))

const stream = client.createStream(ethUsd)
const first = new Promise<bigint>(resolve =>
  stream.once('report', report => resolve(report.decoded.price)),
)
await stream.connect()
console.log(`price ${await first}`)

await client.close()
await engine.close()
