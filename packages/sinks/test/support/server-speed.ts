// Writes reports to a server in batches of 500 and of 5,000, and prints how many it took a second.
import { kafka } from '@sluice/sinks/kafka'
import { postgres } from '@sluice/sinks/postgres'
import type { SinkStore } from 'sluice/plugins/sink'
import { makeReports, positionOf, TIME } from './reports.js'

const FEEDS = 50
const TOTAL = 20_000

/** Measures the store of a place, with and without the signed bytes. */
export async function measure(name: string, place: string): Promise<void> {
  for (const size of [500, 5000])
    for (const raw of [true, false]) {
      if (!name.startsWith('postgres') && !raw) continue
      const topic = `speed-${size}`
      const store: SinkStore = name.startsWith('postgres')
        ? postgres(place, { raw, name: `${size} ${raw}` })
        : kafka({ brokers: place, topic, create: { partitions: 4 } })
      await store.open({ log: {}, signal: new AbortController().signal })
      // Times of their own, as reports that are there already would be faster.
      const from = TIME + 1_000_000 * Math.floor(Math.random() * 1000)
      const reports = makeReports(TOTAL + size, FEEDS, from)
      for (const report of reports) void report.decoded
      const write = (start: number) => {
        const batch = reports.slice(start, start + size)
        const receivedAt = batch.map(() => Date.now())
        const position = positionOf(batch)
        return store.write({ reports: batch, receivedAt, candles: [], position })
      }
      await write(0)
      const [begin, cpu] = [performance.now(), process.cpuUsage()]
      for (let start = size; start < reports.length; start += size) await write(start)
      const seconds = (performance.now() - begin) / 1000
      const { user, system } = process.cpuUsage(cpu)
      const own = (user + system) / TOTAL
      await store.close()
      const kind = `${name}, batches of ${size}${raw ? '' : ', without the signed bytes'}`
      console.log(
        `${kind}: ${Math.round(TOTAL / seconds)} reports/s, ${own.toFixed(0)} µs of this process for each`,
      )
    }
}
