// Four origins that send copies of the same reports: how many reports come out, once each. First all are in step, then one of
// them is 50 ms behind the others, as an origin at another distance is.
import { startFlood } from './flood.mjs'
import { alternate } from './rounds.mjs'
import { titleOf } from './sisters.mjs'
import { compareRates, printSides } from './table.mjs'

const rounds = 11
const origins = 4
const lagMs = 50
/** Of each side so many that they take some tenths of a second at least. */
const reports = { go: 16_000 }
/** The clock starts when a late origin is long there, so that the copies of each that fall into the time are as many. */
const warmup = 1 / 4

export default async function bench({ sisters }) {
  const flood = await startFlood(sisters)
  const others = Object.keys(sisters)
  const measure = options =>
    alternate(['ours', 'ws-nothing', 'official', ...others], { rounds }, side =>
      flood.run(side, { reports: reports[side] ?? 100_000, origins, warmup, ...options }),
    )
  const inStep = await measure({})
  printSides('four origins in step, unique reports', inStep)
  const behind = await measure({ lagMs })
  printSides(`four origins, one of them ${lagMs} ms behind, unique reports`, behind)
  flood.stop()

  const inTime =
    'reports a second over four origins that send at the same time, each report delivered once'
  const title = `reports a second over four origins, of which one is ${lagMs} ms behind`
  return [
    {
      work: `${inTime}; compared with the official SDK`,
      ...compareRates(2, inStep.ours, inStep.official, 'the official SDK'),
    },
    {
      work: `${inTime}; compared with ws that only receives the frames`,
      ...compareRates(0.65, inStep.ours, inStep['ws-nothing'], 'ws'),
    },
    ...others.map(name => ({
      work: `${inTime}; compared with ${titleOf(name)}`,
      ...compareRates(undefined, inStep.ours, inStep[name], titleOf(name)),
    })),
    {
      work: `${title}; compared with ws that only receives the frames`,
      ...compareRates(0.6, behind.ours, behind['ws-nothing'], 'ws'),
    },
    {
      work: `${title}; compared with the official SDK`,
      ...compareRates(undefined, behind.ours, behind.official, 'the official SDK'),
    },
    ...others.map(name => ({
      work: `${title}; compared with ${titleOf(name)}`,
      ...compareRates(undefined, behind.ours, behind[name], titleOf(name)),
    })),
  ]
}
