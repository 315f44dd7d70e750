import { expect } from '@jest/globals'
import { failOnUnhandled } from '../../support/closing.js'
import {
  type Act,
  but,
  type Given,
  type Group,
  line,
  type Sequence,
} from '../../support/wire/sequence.js'
import { playAll } from '../../support/wire/sequences.js'

failOnUnhandled()

const stored: Partial<Given> = { way: 'stored' }
const origins = ['001', '002', '003']

const replay =
  (count: number): Act =>
  ({ service }) =>
    service.origin('001').replay(count)

const lag =
  (reports?: number): Act =>
  ({ service }) =>
    service.origin('002').lag(reports === undefined ? {} : { reports })

/** All that the origin has sent comes again: while the looks go on, after them, and with each new connection. */
function replayed(count: number): Group {
  const first = -2 * count - 98
  const sequence: Sequence = {
    name: `a replay of ${count} reports`,
    pace: 0,
    before: [
      ({ service }) => service.origin('001').replayOnConnect(count),
      ...but(line(first, -100), [first + 20, first + count], stored),
      replay(count),
    ],
    meanwhile: line(-98, -90),
    after: [...but(line(-88, -2), [-60], stored), replay(count), 600, replay(count)],
    pages: [13, 18],
    check: ({ metrics, delivered }) => {
      expect(metrics.deduplicated).toBeGreaterThanOrEqual(2 * count)
      expect(delivered).toHaveLength(count + 49)
    },
  }
  // All of them may come before the first missing report is fetched.
  return { continuity: { reorderBuffer: 2 * count }, sequences: [sequence] }
}

/** One of three origins comes after the others by so many reports of two seconds, and catches up in the end. */
function behind(name: string, count: number): Group {
  const first = -2 * count - 200
  const sequence: Sequence = {
    name: `an origin that is ${name} behind`,
    pace: 0,
    before: [lag(count), ...but(line(first, -100), [first + 20, -160], stored)],
    meanwhile: line(-98, -90),
    after: [...but(line(-88, -2), [-60], stored), 1000, lag()],
    pages: [13, 18],
    check: ({ delivered }) => expect(delivered).toHaveLength((-2 - first) / 2 + 1),
  }
  return { sequences: [sequence], origins }
}

/** The reports of now by two origins, and beside each one that the third sends late. */
function beside(now: readonly Given[], late: readonly Given[]): Given[] {
  return now.flatMap((move, index) => {
    const own = { from: move.at - 1 }
    const old = late[index]
    return [
      { ...move, ...own, to: ['001', '003'] },
      ...(old === undefined ? [] : [{ ...old, from: old.at - 1, to: ['002'], isWrong: true }]),
    ]
  })
}

const unseen: readonly Group[] = [
  {
    origins,
    sequences: [
      {
        name: 'an origin that is twenty minutes behind a client that has just come',
        before: beside(
          but(line(-80, -42), [-60], stored),
          but(line(-1280, -1242), [-1260, -1250], stored),
        ),
        meanwhile: beside(line(-40, -32), []),
        after: beside(but(line(-30, -2), [-20], stored), but(line(-1240, -1212), [-1230], stored)),
        pages: [24, 29],
      },
      {
        name: 'an origin that is behind a client that has just come, and reaches what was there',
        before: beside(but(line(-80, -42), [-60], stored), line(-120, -82)),
        meanwhile: beside(line(-40, -32), []),
        after: beside(but(line(-30, -2), [-20], stored), []),
        pages: [16, 21],
      },
    ],
  },
  {
    origins,
    sequences: [
      {
        name: 'reports that one origin alone sends, a second and a half late',
        before: [
          ({ service }) => service.origin('002').lag({ ms: 1500 }),
          ...but(line(-80, -42), [-70, -60, -58], { to: ['002'] }),
        ],
        meanwhile: line(-40, -32),
        after: but(line(-30, -2), [-20], { to: ['002'] }),
        pages: [13, 18],
      },
    ],
  },
]

playAll([
  ...[250, 600, 1200].map(replayed),
  behind('200 reports', 200),
  behind('300 reports', 300),
  behind('twenty minutes', 600),
  ...unseen,
])
