import { expect } from '@jest/globals'
import { failOnUnhandled } from '../../support/closing.js'
import { but, type Given, line, type Outcome, type Sequence } from '../../support/wire/sequence.js'
import { playAll } from '../../support/wire/sequences.js'

failOnUnhandled()

const before = line(-80, -42)
const meanwhile = line(-40, -32)
const after = line(-30, -2)
const stored: Partial<Given> = { way: 'stored' }
const lost: Partial<Given> = { way: 'lost' }

const withRange = (moves: readonly Given[], seconds: number): Given[] =>
  moves.map(move => ({ ...move, from: move.at - seconds + 1 }))

/** In the unit of milliseconds: one every 200. */
const fast = (first: number, last: number) => line(first, last, 200)

const linked: readonly Sequence[] = [
  { name: 'nothing is missing', before, meanwhile, after, pages: [0, 5] },
  {
    name: 'some are only sent, some only stored',
    before: but(but(before, [-60], stored), [-52], { way: 'sent' }),
    meanwhile,
    after: but(but(after, [-20, -18, -10], stored), [-16], { way: 'sent' }),
    pages: [13, 18],
  },
  {
    name: 'an overlap: after 5, with 6 and 7 only stored, comes 8 with validFrom 4',
    before,
    meanwhile,
    after: [
      ...line(-30, -20),
      { at: -19, ...stored },
      { at: -18, ...stored },
      { at: -17, from: -21 },
      ...line(-15, -1),
    ],
    pages: [3, 8],
  },
  {
    name: 'an overlap over all that is only stored',
    before: [...but(before, [-44, -42], stored), { at: -41, from: -49 }],
    meanwhile,
    after: [{ at: -30, from: -45 }, ...line(-28, -2)],
    pages: [3, 5],
    unordered: 'fetched',
  },
  {
    name: 'a hand-over to another configuration, with reports only stored around it',
    before,
    meanwhile,
    after: [
      ...but(line(-30, -22), [-24, -22], stored),
      { at: -20, from: -21, network: 1 },
      ...but(line(-18, -2), [-18, -10], stored).map(move => ({ ...move, network: 1 })),
    ],
    pages: [12, 17],
  },
  {
    name: 'a hand-over with an overlap, and reports only stored around it',
    before,
    meanwhile,
    after: [
      ...but(line(-30, -22), [-24, -22], stored),
      { at: -21, from: -27, network: 1 },
      { at: -20 },
      ...but(line(-17, -1), [-17, -9], stored).map(move => ({ ...move, network: 1 })),
    ],
    // Nothing waits for what is only possible and was asked for less than ten seconds ago.
    unordered: 'fetched',
    pages: [12, 17],
  },
  {
    name: 'a hand-over around which reports were neither stored nor sent',
    before,
    meanwhile,
    after: [
      ...but(line(-30, -22), [-24, -22], lost),
      { at: -20, from: -21, network: 1 },
      ...line(-18, -2).map(move => ({ ...move, network: 1 })),
    ],
    pages: [3, 8],
  },
  {
    name: 'milliseconds, with some only stored, and one neither stored nor sent',
    feed: 'milliseconds',
    before: but(fast(-10_000, -6200), [-9000, -8800], stored),
    meanwhile: fast(-6000, -5200),
    after: but(but(fast(-5000, -200), [-4000], stored), [-2000], lost),
    gaps: [[-2199, -2000, 'upstream']],
    pages: [13, 18],
  },
  {
    name: 'reports that link are neither stored nor sent',
    before: but(before, [-70, -56, -54], lost),
    meanwhile: but(meanwhile, [-36], lost),
    after: but(but(after, [-20, -14], lost), [-18, -16], stored),
    gaps: [
      [-71, -70, 'upstream'],
      [-57, -54, 'upstream'],
      [-37, -36, 'upstream'],
      [-21, -20, 'upstream'],
      [-15, -14, 'upstream'],
    ],
    pages: [21, 25],
  },
  {
    name: 'the service stores some three seconds late',
    before: but(before, [-60], { ...stored, storeAfter: 3000 }),
    meanwhile,
    after: but(after, [-20, -18], { ...stored, storeAfter: 3000 }),
    pages: [9, 14],
  },
  {
    name: 'the service stores three seconds late what lies in an overlap',
    before,
    meanwhile,
    after: [
      ...line(-30, -20),
      { at: -19, ...stored, storeAfter: 3000 },
      { at: -17, from: -24 },
      ...line(-15, -1),
    ],
    // What is only possible is held until the first look, and found by the second.
    unordered: [-19],
    pages: [3, 8],
  },
  {
    name: 'a report that comes after its gap fills it',
    before: but(before, [-60], { way: 'sent', sendAfter: 12_000 }),
    meanwhile,
    after,
    gaps: [[-61, -60, 'upstream']],
    unordered: [-60],
    // The last one asks for what came after the newest.
    pages: [5, 10],
    check({ emitted, metrics }: Outcome) {
      expect(emitted.filter(({ type }) => type === 'gap-filled')).toEqual([
        { type: 'gap-filled', at: -60, from: -61, to: -60 },
      ])
      expect(metrics.outOfOrder).toBeGreaterThan(0)
    },
  },
]

const everyRange: readonly Sequence[] = [
  {
    name: 'ranges of exactly 300 s',
    before: but(line(-9000, -6000, 300), [-7500], stored),
    meanwhile: line(-5700, -5400, 300),
    after: but(but(line(-5100, -300, 300), [-3000, -2700], stored), [-1200], lost),
    unordered: 'fetched',
    pages: [3, 4],
  },
  {
    name: 'ranges of 300 s and pauses between them',
    // So that the first is asked for before the next has opened: in its own time the feed is slower still.
    pace: 400,
    before: withRange(but(line(-9000, -6600, 600), [-7800], stored), 300),
    meanwhile: withRange(line(-6000, -5400, 600), 300),
    after: withRange(but(but(line(-4800, -600, 600), [-3000], stored), [-1800], lost), 300),
    unordered: 'fetched',
    pages: [3, 4],
  },
  {
    name: 'ranges of a day',
    before: but(line(-1_382_400, -604_800, 86_400), [-1_123_200], stored),
    meanwhile: line(-518_400, -432_000, 86_400),
    after: but(but(line(-345_600, -86_400, 86_400), [-259_200], stored), [-172_800], lost),
    unordered: 'fetched',
    pages: [3, 4],
  },
  {
    name: 'one range of a day among reports of two seconds',
    before,
    meanwhile,
    after: [
      ...but(line(-30, -18), [-20, -18], stored),
      { at: -16, from: -86_415 },
      ...line(-14, -2),
    ],
    unordered: 'fetched',
    pages: [3, 8],
  },
]

const slow: readonly Sequence[] = [
  {
    name: 'one report in ten minutes, and an outage upon the last',
    // So that the first is asked for before the next has opened: in its own time the feed is slower still.
    pace: 400,
    before: withRange(line(-2520, -720, 600), 300),
    meanwhile: withRange(line(-120, -120), 300),
    pages: [3, 4],
    unordered: 'fetched',
  },
]

const blocks: readonly Sequence[] = [
  {
    name: 'version 1, whose validity is in blocks: copies are dropped, no page is asked for',
    feed: 'blocks',
    before: [
      ...line(-80, -42, 3),
      ({ service }) => service.origin('001').replay(5),
      ...but(line(-40, -30), [-38, -34], { way: 'stored', isOptional: true }),
      ({ service }) => service.origin('001').replay(9),
    ],
    after: [...line(-28, -2, 2), ({ service }) => service.origin('001').replay(30)],
    pages: [0, 0],
    check: ({ metrics }) => expect(metrics.deduplicated).toBe(39 + 5),
  },
]

playAll([
  { sequences: linked },
  { sequences: everyRange, continuity: { maxBackfill: 1_500_000_000 } },
  { sequences: slow },
  { sequences: blocks },
])
