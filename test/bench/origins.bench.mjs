// Four origins that send copies of the same reports: how many reports come out, once each.
import { startFlood } from './flood.mjs'
import { alternate } from './rounds.mjs'
import { compareRates, printSides } from './table.mjs'

const rounds = 11

export default async function bench() {
  const flood = await startFlood()
  const sides = await alternate(['ours', 'ws-nothing', 'official'], { rounds }, side =>
    flood.run(side, { reports: 60_000, origins: 4 }),
  )
  printSides('four origins, unique reports', sides)
  flood.stop()

  return [
    {
      work: 'four origins sending copies, unique reports out, against the official SDK',
      ...compareRates(2, sides.ours, sides.official),
    },
    {
      work: 'the same, against ws frames received and not looked at',
      ...compareRates(0.6, sides.ours, sides['ws-nothing']),
    },
  ]
}
