// Verifying the signatures of reports: how many in a second, and how long the event loop is held up meanwhile.
import { alternate, ratio, spread } from './rounds.mjs'
import { startProcess } from './rpc.mjs'
import { atLeast, atMost, perSecond, printTable, short } from './table.mjs'

const pace = 1000
const forMs = 1500
const rounds = 5
const ways = {
  'noble, in the loop': { curveLibrary: 'noble', workers: 0 },
  'noble, one thread': { curveLibrary: 'noble', workers: 1 },
  'noble, two threads': { curveLibrary: 'noble', workers: 2 },
  'secp256k1, in the loop': { curveLibrary: 'secp256k1', workers: 0 },
  'secp256k1, one thread': { curveLibrary: 'secp256k1', workers: 1 },
  'secp256k1, two threads': { curveLibrary: 'secp256k1', workers: 2 },
}
const paced = {
  idle: {},
  'secp256k1, as it is by default': { curveLibrary: 'secp256k1' },
  'secp256k1, in the loop': { curveLibrary: 'secp256k1', workers: 0 },
}

export default async function bench() {
  const { ask, stop } = startProcess('verify-process.mjs')
  const rates = await alternate(Object.keys(ways), { rounds }, way =>
    ask('rate', { ...ways[way], forMs }),
  )
  printTable(
    'reports of two signatures verified',
    ['reports/s', 'least to most'],
    Object.entries(rates).map(([way, list]) => {
      const { median, min, max } = spread(list)
      return [way, perSecond(median), `${perSecond(min)} to ${perSecond(max)}`]
    }),
  )

  const delays = await alternate(Object.keys(paced), { rounds }, way =>
    ask('delay', { ...paced[way], pace, forMs }),
  )
  stop()
  const of = (way, name) => spread(delays[way].map(each => each[name]))
  printTable(
    `event-loop delay at ${pace} reports/s, sampled every ms`,
    ['p50 ms', 'p99 ms', 'least to most', 'max ms', 'behind at the end'],
    Object.keys(paced).map(way => {
      const { median, min, max } = of(way, 'p99')
      const spreadOf = `${short(min)} to ${short(max)}`
      const middle = name => short(of(way, name).median)
      return [way, middle('p50'), short(median), spreadOf, middle('max'), middle('behind')]
    }),
  )
  const say = way => perSecond(spread(rates[way]).median)
  const [byDefault, inLoop] = Object.keys(paced).slice(1)
  return [
    {
      work: 'verify two signatures, secp256k1 against noble, in the loop',
      ...atLeast(undefined, ratio(rates['secp256k1, in the loop'], rates['noble, in the loop'])),
      detail: `${say('secp256k1, in the loop')} against ${say('noble, in the loop')}`,
    },
    {
      work: 'event-loop delay p99 at 1,000 verified reports/s',
      ...atMost(10, of(byDefault, 'p99'), ' ms'),
      detail: `idle ${short(of('idle', 'p99').median)} ms, in the loop ${short(of(inLoop, 'p99').median)} ms`,
    },
  ]
}
