// One REST call, and a bare fetch of the same answer, alternately over connections that stay open.
import { createClient as createOfficial } from '@chainlink/data-streams-sdk'
import { createClient } from '../../dist/esm/index.js'
import { startFlood } from './flood.mjs'
import { feedID } from './frames.mjs'
import { alternate, spread } from './rounds.mjs'
import { atMost, printTable, short } from './table.mjs'

const blocks = 15
const calls = 150

export default async function bench() {
  const flood = await startFlood()
  const { endpoint } = flood
  const config = {
    apiKey: 'key',
    userSecret: 'secret',
    endpoint,
    wsEndpoint: 'ws://localhost',
  }
  // The service's limit of ten requests a second is what is not to be measured.
  const ours = createClient({ ...config, rateLimit: { requests: 1_000_000 } })
  const official = createOfficial(config)
  const id = feedID(0)
  const url = `${endpoint}/api/v1/reports/latest?feedID=${id}`
  const ways = {
    async fetch() {
      const answer = await fetch(url)
      return (await answer.json()).report
    },
    ours: () => ours.getLatestReport(id),
    official: () => official.getLatestReport(id),
  }
  const sides = Object.keys(ways)

  async function time(side) {
    const started = performance.now()
    const { fullReport } = await ways[side]()
    const took = performance.now() - started
    if (!fullReport.startsWith('0x')) throw new Error(`${side}: no report came`)
    return took
  }

  const results = await alternate(sides, { rounds: blocks * calls, warmup: 2 * calls }, time)
  await ours.close()
  flood.stop()

  printTable(
    'ms for getLatestReport',
    ['median'],
    sides.map(side => [side, short(spread(results[side]).median)]),
  )
  /** The median of what calls took more than the fetch beside them, for each block of calls. */
  const over = side =>
    spread(
      Array.from({ length: blocks }, (_, block) => {
        const indexes = Array.from({ length: calls }, (_, call) => block * calls + call)
        return spread(indexes.map(index => results[side][index] - results.fetch[index])).median
      }),
    )
  return [
    {
      work: 'one REST call’s overhead over bare fetch',
      ...atMost(0.3, over('ours'), ' ms'),
      detail: `official ${short(over('official').median)} ms; the fetch itself ${short(spread(results.fetch).median)} ms`,
    },
  ]
}
