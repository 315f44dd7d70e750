// Decoding every version, hex string to typed object.
import { ratio, spread } from './rounds.mjs'
import { startProcess } from './rpc.mjs'
import { atLeast, printTable, short } from './table.mjs'

const versions = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
const sides = ['ours', 'official', 'viem', 'ethers']
/** How many times as fast as others: on V3, and on the version where we are nearest to them. */
const rivals = { official: { v3: 500, worst: 300 }, viem: { v3: 45, worst: 30 } }
const names = { official: 'the official SDK', viem: 'viem' }
/** The versions the official SDK has no decoder for. */
const unknown = { official: [14] }

export default async function bench() {
  const { ask, stop } = startProcess('decode-process.mjs')
  const results = {}
  for (const version of versions) {
    const able = sides.filter(side => !unknown[side]?.includes(version))
    const rounds = await ask('measure', { version, sides: able, rounds: 21, warmup: 10 })
    results[version] = Object.fromEntries(able.map(side => [side, rounds.map(each => each[side])]))
  }
  stop()

  const micros = list => (list === undefined ? '' : short(spread(list).median))
  printTable(
    'µs of processor time to decode a report',
    sides,
    versions.map(version => [`V${version}`, ...sides.map(side => micros(results[version][side]))]),
  )
  const times = (version, rival) => ratio(results[version][rival], results[version].ours)
  return Object.entries(rivals).flatMap(([rival, goal]) => {
    const others = versions.filter(version => version !== 3 && results[version][rival])
    const hardest = others.reduce((least, version) =>
      times(version, rival).median < times(least, rival).median ? version : least,
    )
    const detail = version =>
      `${micros(results[version].ours)} µs; ${names[rival]} ${micros(results[version][rival])} µs`
    return [
      {
        work: `decode V3, hex string to typed object, against ${names[rival]}`,
        ...atLeast(goal.v3, times(3, rival)),
        detail: detail(3),
      },
      {
        work: `decode V${others.at(0)} to V${others.at(-1)}, the worst of them (V${hardest}), against ${names[rival]}`,
        ...atLeast(goal.worst, times(hardest, rival)),
        detail: detail(hardest),
      },
    ]
  })
}
