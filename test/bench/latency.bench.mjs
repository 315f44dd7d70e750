// How long a report takes from the socket's read to its handler, at 2,000 reports a second that come evenly over one connection.
import { startFlood } from './flood.mjs'
import { alternate, spread } from './rounds.mjs'
import { atMost, printTable, short } from './table.mjs'

const pace = 2000
const forMs = 3000
const rounds = 5
const sides = { ours: 'sluice', official: 'the official SDK', 'ws-json': 'bare ws + JSON.parse' }
const shares = { p50: 'median', p99: '99th percentile' }

export default async function bench() {
  const flood = await startFlood()
  const results = await alternate(Object.keys(sides), { rounds }, side =>
    flood.run(side, { reports: 2 * pace * (forMs / 1000), pace, forMs, latency: true }),
  )
  flood.stop()

  const of = (side, share) => spread(results[side].map(({ latency }) => latency[share]))
  const cells = ({ median, min, max }) => [short(median), `${short(min)} to ${short(max)}`]
  printTable(
    'µs from the socket’s read to the handler',
    ['p50', 'least to most', 'p99', 'least to most'],
    Object.keys(sides).map(side => [side, ...cells(of(side, 'p50')), ...cells(of(side, 'p99'))]),
  )
  const say = share => (side, index) =>
    index === 0 ? [] : [`${sides[side]} ${short(of(side, share).median)} µs`]
  return Object.keys(shares).map(share => ({
    work: `time from the socket’s read to the handler at 2,000 reports/s, ${shares[share]}`,
    ...atMost(undefined, of('ours', share), ' µs'),
    detail: Object.keys(sides).flatMap(say(share)).join(', '),
  }))
}
