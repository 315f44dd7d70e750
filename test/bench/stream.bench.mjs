// One connection, from frames to `report` events: reading what was signed, and what it decodes to.
import { startFlood } from './flood.mjs'
import { alternate } from './rounds.mjs'
import { compareRates, printSides } from './table.mjs'

const rounds = 15

export default async function bench() {
  const flood = await startFlood()
  const plain = await alternate(['ours', 'ws-json', 'official'], { rounds }, side =>
    flood.run(side, { reports: 75_000 }),
  )
  printSides('frames to report events, fullReport read', plain)
  // The official SDK is given less to do, or it would take half a minute a round.
  const decoded = await alternate(['ours', 'official'], { rounds }, side =>
    flood.run(side, { reports: side === 'official' ? 2500 : 75_000, read: 'decoded' }),
  )
  printSides('the same, decoded read and every field touched', decoded)
  flood.stop()

  return [
    {
      work: 'one connection, frames to `report` events, `fullReport` read, against bare ws + JSON.parse',
      ...compareRates(1, plain.ours, plain['ws-json']),
    },
    {
      work: 'the same, against the official SDK',
      ...compareRates(undefined, plain.ours, plain.official),
    },
    {
      work: 'the same, `decoded` read and every field touched, against the official SDK',
      ...compareRates(40, decoded.ours, decoded.official),
    },
  ]
}
