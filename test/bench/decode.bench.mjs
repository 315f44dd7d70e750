// Decoding every version, hex string to typed object.
import { ratio, spread } from './rounds.mjs'
import { startProcess, startProgram } from './rpc.mjs'
import { titleOf } from './sisters.mjs'
import { atLeast, printTable, short } from './table.mjs'

const versions = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
const rounds = 21
const warmup = 10
/** The sides that are decoders of Node; each sister has a process of its own. */
const inNode = ['ours', 'official', 'viem', 'ethers']
/** How many times as fast as others: on V3, and on the version where we are nearest to them. */
const rivals = {
  official: { v3: 500, worst: 300 },
  viem: { v3: 45, worst: 30 },
  rust: { v3: 6 },
  go: { v3: 30 },
}
const names = {
  official: 'the official SDK',
  viem: 'viem',
  rust: titleOf('rust'),
  go: titleOf('go'),
}
/** The versions that a side has no decoder for, or, as that of Go for V11, one for another layout. */
const unknown = { official: [14], go: [11, 14] }
/** How often a sister decodes in a round, for some hundredths of a second. */
const REPEATS = { go: 1000, rust: 5000 }

/** The numbers in what a sister wrote of a decoded report: a struct’s fields, each behind its name. */
const numbersIn = description =>
  [...description.matchAll(/: ?\+?(-?\d+)(?=[ ,}])/g)].map(([, number]) => number)

/** Has a sister decode the reports, and makes sure that it decodes them to the same. */
async function prepare({ name, ask }, version, reports) {
  const described = await ask('prepare', {
    version,
    reports: reports.map(({ fullReport }) => fullReport),
  })
  for (const [index, description] of described.entries()) {
    const expected = reports[index].numbers.toSorted().join()
    const found = numbersIn(description).toSorted().join()
    if (found !== expected)
      throw new Error(`${name} decodes a report of V${version} to ${found}, not ${expected}`)
  }
}

/** The microseconds that each side takes for a report of a version, round by round. */
async function measure(node, sisters, version) {
  const able = side => !unknown[side]?.includes(version)
  const sides = inNode.filter(able)
  const others = sisters.filter(({ name }) => able(name))
  const reports = await node.ask('prepare', { version, sides })
  for (const sister of others) await prepare(sister, version, reports)
  const results = {}
  for (let round = -warmup; round < rounds; round++) {
    const times = await node.ask('round')
    for (const { name, ask } of others) times[name] = await ask('round', { times: REPEATS[name] })
    if (round < 0) continue
    for (const [side, micros] of Object.entries(times)) {
      results[side] ??= []
      results[side].push(micros)
    }
  }
  return results
}

export default async function bench({ sisters }) {
  const node = startProcess('decode-process.mjs')
  const programs = Object.entries(sisters).map(([name, program]) => ({
    name,
    ...startProgram(name, program),
  }))
  const results = {}
  for (const version of versions) results[version] = await measure(node, programs, version)
  for (const { stop } of [node, ...programs]) stop()

  const sides = [...inNode, ...Object.keys(sisters)]
  const micros = list => (list === undefined ? '' : short(spread(list).median))
  printTable(
    'µs of processor time to decode a report',
    sides,
    versions.map(version => [`V${version}`, ...sides.map(side => micros(results[version][side]))]),
  )
  const times = (version, rival) => ratio(results[version][rival], results[version].ours)
  const compared = Object.entries(rivals).filter(([rival]) => sides.includes(rival))
  return compared.flatMap(([rival, goal]) => {
    const others = versions.filter(version => version !== 3 && results[version][rival])
    const hardest = others.reduce((least, version) =>
      times(version, rival).median < times(least, rival).median ? version : least,
    )
    const missing = versions.filter(version => version < others.at(-1) && !results[version][rival])
    const range = [
      `V${others.at(0)} to V${others.at(-1)}`,
      ...missing.map(version => `without V${version}`),
    ].join(', ')
    const detail = version =>
      `sluice ${micros(results[version].ours)} µs; ${names[rival]} ${micros(results[version][rival])} µs`
    return [
      {
        work: `speed of decoding a V3 report, from hex string to typed object, compared with ${names[rival]}`,
        ...atLeast(goal.v3, times(3, rival)),
        detail: detail(3),
      },
      {
        work: `speed of decoding, compared with ${names[rival]}, for the version with the lowest ratio (${range})`,
        ...atLeast(goal.worst, times(hardest, rival)),
        // Not in the name, which is that of the row in every run.
        detail: `V${hardest}: ${detail(hardest)}`,
      },
    ]
  })
}
