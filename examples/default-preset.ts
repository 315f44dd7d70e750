// One call makes a client with the default preset: a latest report over REST, then a stream.

import { startDataEngine } from '@sluice/engine'
import { createClient } from 'sluice'

const engine = await startDataEngine()
const { apiKey, userSecret, endpoint, wsEndpoint } = engine
const [ethUsd, btcUsd] = engine.feeds as [string, string]

const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })

const report = await client.getLatestReport(ethUsd)
if (report.decoded.version === 'V3')
  console.log(`bid ${report.decoded.bid}, ask ${report.decoded.ask}`)

const stream = client.createStream([ethUsd, btcUsd])
let count = 0
const enough = new Promise<void>(resolve => {
  stream.on('report', ({ feedID, decoded }) => {
    console.log(feedID, decoded.version, decoded.observationsTimestamp)
    if (++count === 6) resolve()
  })
})
stream.on('error', error => console.error(error.message))
await stream.connect()
await enough

console.log(stream.getMetrics())
await client.close()
await engine.close()
