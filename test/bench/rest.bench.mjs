// One REST call, and a bare fetch of the same answer, alternately over connections that stay open; and the
// processor time of either, in blocks of calls.
import { createClient as createOfficial } from '@chainlink/data-streams-sdk'
import ky from 'ky'
import { createClient, generateAuthHeaders } from 'sluice'
import { startFlood } from './flood.mjs'
import { feedID } from './frames.mjs'
import { alternate, ratio, spread } from './rounds.mjs'
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
  const rateLimit = { requests: 1_000_000 }
  const ours = createClient({ ...config, rateLimit })
  const withFetch = createClient({ ...config, rateLimit, fetch })
  const official = createOfficial(config)
  const id = feedID(0)
  const url = `${endpoint}/api/v1/reports/latest?feedID=${id}`
  const signed = generateAuthHeaders('key', 'secret', 'GET', url)
  const plain = { retry: 0, timeout: false, throwHttpErrors: false }
  const ways = {
    async fetch() {
      const answer = await fetch(url)
      return (await answer.json()).report
    },
    ours: () => ours.getLatestReport(id),
    'ours, given fetch': () => withFetch.getLatestReport(id),
    official: () => official.getLatestReport(id),
    async 'ky alone'() {
      const { signal } = new AbortController()
      return (await ky(url, { ...plain, headers: new Headers(signed), signal }).json()).report
    },
  }
  const sides = Object.keys(ways)

  async function time(side) {
    const started = performance.now()
    const { fullReport } = await ways[side]()
    const took = performance.now() - started
    if (!fullReport.startsWith('0x')) throw new Error(`${side}: no report came`)
    return took
  }

  /** Milliseconds of processor time that a call takes, its garbage included. */
  async function work(side) {
    const before = process.cpuUsage()
    for (let call = 0; call < calls; call++) await ways[side]()
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000 / calls
  }

  const results = await alternate(sides, { rounds: blocks * calls, warmup: 2 * calls }, time)
  const cpu = await alternate(sides, { rounds: 2 * blocks, warmup: 2 }, work)
  await Promise.all([ours.close(), withFetch.close()])
  flood.stop()

  printTable(
    'getLatestReport',
    ['median ms', 'CPU ms', 'CPU, times the official'],
    sides.map(side => [
      side,
      ...[results[side], cpu[side]].map(list => short(spread(list).median)),
      short(ratio(cpu[side], cpu.official).median),
    ]),
  )
  /** The median of what calls took more than the fetch beside them, for each block of calls. */
  const over = side =>
    spread(
      Array.from({ length: blocks }, (_, block) => {
        const indexes = Array.from({ length: calls }, (_, call) => block * calls + call)
        return spread(indexes.map(index => results[side][index] - results.fetch[index])).median
      }),
    )
  const overs = side => `${short(over(side).median)} ms`
  const times = side => short(ratio(cpu[side], cpu.official).median)
  return [
    {
      work: 'additional time of one REST call, compared with a bare `fetch`',
      ...atMost(0.35, over('ours'), ' ms'),
      detail: `sluice with your own \`fetch\` adds ${overs('ours, given fetch')}, ky alone adds ${overs('ky alone')}, the official SDK adds ${overs('official')}; the bare \`fetch\` takes ${short(spread(results.fetch).median)} ms`,
    },
    {
      work: 'processor time of one REST call, compared with the official SDK',
      ...atMost(1.2, ratio(cpu.ours, cpu.official), ' times'),
      detail: `sluice with a \`fetch\` of your own ${times('ours, given fetch')} times, ky alone ${times('ky alone')} times, a bare \`fetch\` ${times('fetch')} times`,
    },
  ]
}
