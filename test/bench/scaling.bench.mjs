// What a report costs with more origins, and with more feeds; and what a feed takes of memory.
import { startFlood } from './flood.mjs'
import { fromSource } from './from-source.mjs'
import { alternate, ratio, spread } from './rounds.mjs'
import { atMost, printTable, short } from './table.mjs'

const { shardCapacity } = await fromSource('client/stream/shards/plan')

const origins = [1, 2, 4, 8]
const feeds = [1, 10, 100, 1000]
const rounds = 5

const costs = list => list.map(({ cpuPerReport }) => cpuPerReport)

export default async function bench() {
  const flood = await startFlood()
  const perOrigins = await alternate(origins, { rounds }, count =>
    flood.run('ours', { reports: 40_000, origins: count }),
  )
  const shardsOf = count => Math.ceil(count / shardCapacity([flood.endpoint]))
  const perFeeds = await alternate(feeds, { rounds }, count =>
    flood.run('ours', { reports: 80_000, feeds: count, shards: shardsOf(count) }),
  )
  // What has been seen of a feed grows to its window of 512 times, and a fourth more.
  const full = await alternate([1, 1000], { rounds: 3, warmup: 0 }, count =>
    flood.run('ours', { reports: 640 * count, feeds: count, shards: shardsOf(count) }),
  )
  flood.stop()

  const cost = (results, count) => spread(costs(results[count])).median
  printTable(
    'origins',
    ['CPU µs/report', 'µs/copy'],
    origins.map(count => {
      const micros = cost(perOrigins, count)
      return [String(count), short(micros), short(micros / count)]
    }),
  )
  printTable(
    'feeds',
    ['CPU µs/report', 'client busy'],
    feeds.map(count => [
      String(count),
      short(cost(perFeeds, count)),
      `${spread(perFeeds[count].map(({ busy }) => busy)).median.toFixed()} %`,
    ]),
  )
  const copies = origins.slice(1).map(count =>
    ratio(
      costs(perOrigins[count]).map(micros => micros / count),
      costs(perOrigins[1]),
    ),
  )
  const grown = ratio(costs(perFeeds[1000]), costs(perFeeds[1]))
  const more = times => 100 * (times - 1)
  const flat = {
    ...grown,
    median: more(grown.median),
    min: more(grown.min),
    max: more(grown.max),
  }
  const kilobytes = results =>
    spread(results[1].map((few, at) => (results[1000][at].memory - few.memory) / 999 / 1000))
  const named = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`
  return [
    {
      work: 'processor time per received copy of a report, compared with one origin: the highest of the ratios with 2, 4 and 8 origins',
      ...atMost(
        1.2,
        copies.reduce((most, each) => (each.median > most.median ? each : most)),
        ' times',
      ),
      detail: `a report with all its copies takes: ${origins
        .map(count => `${named(count, 'origin')} ${short(cost(perOrigins, count))} µs`)
        .join(', ')}`,
    },
    {
      work: 'processor time per report with 1000 feeds, compared with one feed',
      ...atMost(20, flat, ' % more'),
      detail: feeds
        .map(count => `${named(count, 'feed')} ${short(cost(perFeeds, count))} µs`)
        .join(', '),
    },
    {
      work: 'memory of each of 1000 feeds (heap and buffers)',
      ...atMost(4, kilobytes(perFeeds), ' kB'),
      detail: `${short(kilobytes(full).median)} kB after 640 reports of each feed`,
    },
  ]
}
