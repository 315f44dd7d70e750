import { failOnUnhandled } from '../../support/closing.js'
import { but, type Given, line, type Sequence } from '../../support/wire/sequence.js'
import { playAll } from '../../support/wire/sequences.js'
import { atEach, wrong } from '../../support/wire/wrong-clocks.js'

failOnUnhandled()

const stored: Partial<Given> = { way: 'stored' }

/** A feed with a report in ten seconds reaches the time that its clock had been ahead to. */
function reached(name: string, by: number, count: number, isChained: boolean): Sequence {
  const first = -900 + by + 1
  return {
    name: `${name}, and reached later`,
    before: [
      ...but(line(-1000, -900, 10), [-950, -900], stored),
      ...wrong(count, first, -900, isChained),
    ],
    meanwhile: line(-890, -850, 10),
    after: but(line(-840, -400, 10), [-840, -900 + by, -500], stored),
    gaps: isChained ? [] : 'empty',
    pages: [23, 28],
    unordered: 'fetched',
  }
}

const distances: Parameters<typeof atEach>[0] = [
  ['ten seconds', 10],
  ['four minutes', 240],
  ['six minutes', 360],
]

/** What came before the clock went back may come at any place. */
const beforeItWentBack = but(line(-60, -30), [-50], stored).map(move => ({
  ...move,
  from: move.at - 1,
  isWrong: true,
}))

const others: readonly Sequence[] = [
  {
    name: 'a clock that goes an hour back for good',
    before: [...beforeItWentBack, { at: -3630 }, ...but(line(-3628, -3620), [-3624], stored)],
    meanwhile: line(-3618, -3610),
    after: but(line(-3608, -3570), [-3590, -3588], stored),
    pages: [16, 21],
    unordered: 'fetched',
  },
  {
    name: 'a clock that goes an hour back for good, with ranges that say so',
    before: [
      ...beforeItWentBack,
      { at: -3630, from: -3631 },
      ...but(line(-3628, -3620), [-3624], stored),
    ],
    meanwhile: line(-3618, -3610),
    after: but(line(-3608, -3570), [-3590, -3588], stored),
    pages: [16, 21],
    unordered: 'fetched',
  },
  {
    name: 'a first report ever that is an hour ahead',
    before: [{ at: 3540, isWrong: true }, ...but(line(-60, -30), [-50], stored)],
    meanwhile: line(-28, -22),
    after: but(line(-20, -2), [-10, -8], stored),
    pages: [12, 17],
  },
  {
    name: 'a first report ever that is an hour ahead, with another after an outage',
    before: [{ at: 3540, isWrong: true }, ...but(line(-60, -30), [-50], stored)],
    meanwhile: line(-28, -22),
    after: [{ at: 3580, from: -21, isWrong: true }, ...but(line(-20, -2), [-10, -8], stored)],
    pages: [16, 21],
  },
]

// What lies in the future is held for reorderTimeout.
playAll([
  { sequences: others, continuity: { reorderTimeout: 11_500 } },
  { sequences: atEach(distances, reached), continuity: { maxBackfill: 600_000 } },
])
