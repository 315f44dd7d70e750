// How long the event loop is held up at 20,000 reports a second that come evenly.
import { startFlood } from './flood.mjs'
import { alternate, spread } from './rounds.mjs'
import { atMost, perSecond, printTable, short } from './table.mjs'

const pace = 20_000
const forMs = 1500
const rounds = 5
const ways = {
  idle: ['idle'],
  ours: ['ours', 'fullReport'],
  'ours, decoded': ['ours', 'decoded'],
  official: ['official', 'fullReport'],
  'official, decoded': ['official', 'decoded'],
}

export default async function bench() {
  const flood = await startFlood()
  const results = await alternate(Object.keys(ways), { rounds }, way => {
    const [side, read] = ways[way]
    return side === 'idle'
      ? flood.idle(forMs)
      : flood.run(side, { reports: 2 * pace * (forMs / 1000), feeds: 100, read, pace, forMs })
  })
  flood.stop()

  const p99 = way => spread(results[way].map(({ delay }) => delay.p99))
  printTable(
    'event-loop delay, sampled every ms',
    ['reports/s', 'p50 ms', 'p99 ms', 'least to most', 'max ms', 'client busy'],
    Object.entries(results).map(([way, list]) => {
      const of = pick => spread(list.map(pick)).median
      const { median, min, max } = p99(way)
      return [
        way,
        way === 'idle' ? '' : perSecond(of(({ rate }) => rate)),
        short(of(({ delay }) => delay.p50)),
        short(median),
        `${short(min)} to ${short(max)}`,
        short(of(({ delay }) => delay.max)),
        `${of(({ busy }) => busy).toFixed()} %`,
      ]
    }),
  )
  const say = way => `${short(p99(way).median)} ms`
  const got = perSecond(spread(results['official, decoded'].map(({ rate }) => rate)).median)
  const others = `an idle process ${say('idle')}, the official SDK ${say('official')}`
  return [
    {
      work: 'delay of the event loop, 99th percentile, at 20,000 reports/s, if the handler reads `fullReport`',
      ...atMost(5, p99('ours'), ' ms'),
      detail: others,
    },
    {
      work: 'delay of the event loop, 99th percentile, at 20,000 reports/s, if the handler reads `decoded`',
      ...atMost(5, p99('ours, decoded'), ' ms'),
      detail: `the official SDK ${say('official, decoded')}, at only ${got}`,
    },
  ]
}
