// One connection, from frames to `report` events: reading what was signed, and what it decodes to.
import { startFlood } from './flood.mjs'
import { alternate } from './rounds.mjs'
import { titleOf } from './sisters.mjs'
import { compareRates, printSides } from './table.mjs'

const rounds = 15
/**
 * How many reports a side gets in a round. A round begins with a collection of garbage, after which the engine compiles the
 * code of the last stream again: with 75,000 reports that was a tenth of the time.
 */
const reports = 300_000
/** The slower sides are given less to decode, or the official SDK would take half a minute a round. */
const decodes = { official: 2500, go: 20_000, rust: 75_000 }

export default async function bench({ sisters }) {
  const flood = await startFlood(sisters)
  const others = Object.keys(sisters)
  const plain = await alternate(['ours', 'ws-json', 'official'], { rounds }, side =>
    flood.run(side, { reports }),
  )
  printSides('frames to report events, fullReport read', plain)
  const decoded = await alternate(['ours', 'official', ...others], { rounds }, side =>
    flood.run(side, { reports: decodes[side] ?? reports, read: 'decoded' }),
  )
  printSides('the same, decoded read and every field touched', decoded)
  flood.stop()

  return [
    {
      work: 'reports a second over one connection, from frames to `report` events, if the handler reads `fullReport`; compared with bare ws and `JSON.parse`',
      ...compareRates(1.4, plain.ours, plain['ws-json'], 'bare ws'),
    },
    {
      work: 'reports a second over one connection, if the handler reads `fullReport`; compared with the official SDK',
      ...compareRates(undefined, plain.ours, plain.official, 'the official SDK'),
    },
    {
      work: 'reports a second over one connection, if the handler reads `decoded` and every field; compared with the official SDK',
      ...compareRates(120, decoded.ours, decoded.official, 'the official SDK'),
    },
    ...others.map(name => ({
      work: `reports a second over one connection, if the handler reads \`decoded\` and every field; compared with ${titleOf(name)}`,
      ...compareRates(undefined, decoded.ours, decoded[name], titleOf(name)),
    })),
  ]
}
