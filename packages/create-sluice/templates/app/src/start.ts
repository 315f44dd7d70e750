import { createClient } from 'sluice'
import { printPrices } from './prices.js'

// ETH/USD of the testnet.
const feedID = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'

const { API_KEY, USER_SECRET, REST_URL, WS_URL } = process.env

/** Starts a service of this machine, which signs a report every second. */
async function startEngine() {
  console.log('API_KEY and USER_SECRET are not set: these prices are made up by a local engine')
  const { startDataEngine } = await import('@sluice/engine')
  return startDataEngine({ feeds: [feedID] })
}

await using engine = API_KEY && USER_SECRET ? undefined : await startEngine()
await using client = createClient({
  apiKey: engine?.apiKey ?? API_KEY ?? '',
  userSecret: engine?.userSecret ?? USER_SECRET ?? '',
  endpoint: engine?.endpoint ?? REST_URL ?? 'https://api.testnet-dataengine.chain.link',
  wsEndpoint: engine?.wsEndpoint ?? WS_URL ?? 'wss://ws.testnet-dataengine.chain.link',
})
const stream = client.createStream(feedID, { maxReconnectAttempts: Infinity })
stream.on('error', error => console.error(error.message))
stream.on('gap', ({ from, to }) => console.warn(`no reports from ${from} to ${to}`))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stream.close())
// If the stream ends by itself, this line throws, and the process ends with the code 1.
await printPrices(stream, console.log)
