// The program against a data engine of this package: what was compiled also runs.
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { inConfidence } from './packages.js'
import { fetchOne, parts, streamOne } from './program.js'

async function main(): Promise<void> {
  const engine: DataEngine = await startDataEngine({ intervalMs: 50 })
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const feedID = engine.feeds.find(id => id.startsWith('0x0003'))
  if (feedID === undefined) throw new Error('no feed of version 3')
  const place = { endpoint, wsEndpoint, apiKey, userSecret, feedID }
  try {
    const prices = await streamOne(place)
    if (!/^\d+ \d+$/.test(prices)) throw new Error(`no prices: ${prices}`)
    const { calls, attempts, reports } = await fetchOne(place)
    if (calls !== 3 || attempts !== 3 || reports !== 4) {
      throw new Error(`the plugin saw ${calls} calls, ${attempts} attempts, ${reports} reports`)
    }
    if ([...parts, ...inConfidence].includes(undefined)) throw new Error('a part is missing')
  } finally {
    await engine.close()
  }
}

main().catch((error: unknown) => {
  console.error(error)
  process.exitCode = 1
})
