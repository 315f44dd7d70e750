import { expect } from '@jest/globals'
import { failOnUnhandled } from '../../support/closing.js'
import { feedID } from '../../support/service/service.js'
import {
  type Act,
  but,
  type Emitted,
  type ExpectedGap,
  type Given,
  type Group,
  line,
  type Sequence,
} from '../../support/wire/sequence.js'
import { playAll } from '../../support/wire/sequences.js'

failOnUnhandled()

const stored: Partial<Given> = { way: 'stored' }
const meanwhile = line(-40, -32)

const withAnOlder: Act = ({ service }, feed, base) => {
  const older = service.skip(feed, { observed: base - 80, validFrom: base - 81 })
  service.changePages(feed, page => [older, ...page])
}

const withAForeign: Act = ({ service }, feed, base) => {
  const foreign = service.skip(feedID(3, 999), { observed: base - 20, validFrom: base - 21 })
  service.changePages(feed, page => [foreign, ...page])
}

const withEachTwice: Act = ({ service }, feed) =>
  service.changePages(feed, page => page.flatMap(report => [report, report]))

function badPage(name: string, change: Act): Sequence {
  return {
    name: `pages with ${name}`,
    before: [...line(-82, -70), change, ...but(line(-68, -42), [-60, -58], stored)],
    meanwhile,
    after: but(line(-30, -2), [-20, -16], stored),
    hasErrors: true,
    pages: [13, 18],
  }
}

const badPages: Group = {
  sequences: [
    badPage('an older report', withAnOlder),
    badPage('a report of another feed', withAForeign),
    badPage('each report twice', withEachTwice),
  ],
}

const connectionsOf = ({ service }: { service: Parameters<Act>[0]['service'] }) =>
  service.origins.flatMap(({ pastConnections }) => pastConnections)

const mute: Group = {
  stream: { staleAfter: 2000 },
  sequences: [
    {
      name: 'a connection that is alive and mute',
      before: [
        ...line(-80, -62),
        ({ service }) => service.origin('001').mute(),
        ...line(-60, -42),
        4500,
      ],
      meanwhile,
      after: line(-30, -2),
      hasErrors: true,
      pages: [4, 9],
      check: ({ variant, service }) =>
        expect(connectionsOf({ service })).toHaveLength(variant.outage ? 3 : 2),
    },
  ],
}

const quiet: Group = {
  stream: { staleAfter: 1000 },
  sequences: [
    {
      name: 'a feed that has nothing to send keeps its connection',
      before: [...line(-80, -42), 3000],
      meanwhile,
      after: line(-30, -2),
      pages: [2, 7],
      check: ({ variant, service }) =>
        expect(connectionsOf({ service })).toHaveLength(variant.outage ? 2 : 1),
    },
  ],
}

const failREST =
  (answer: number | 'hang'): Act =>
  ({ service }) =>
    void service.fail({ on: 'rest', answer })

const unanswered = (answer: number | 'hang'): Group => ({
  config: { timeout: 1000, retryAttempts: 0 },
  sequences: [
    {
      name: `REST that is answered with ${answer === 'hang' ? 'nothing' : answer} for a while`,
      before: [
        ...line(-80, -62),
        failREST(answer),
        ...but(line(-60, -52), [-58, -56], stored),
        { at: -48, way: 'stored' },
        { at: -46, from: -53 },
        ...line(-44, -42),
        3500,
        ({ service }) => service.heal(),
      ],
      meanwhile,
      after: but(line(-30, -2), [-20], stored),
      unordered: 'fetched',
      pages: [20, 25],
    },
  ],
})

/** All reports come before the first gap. */
function expectReportsFirst(emitted: readonly Emitted[]): void {
  const types = emitted.map(({ type }) => type)
  expect(types.lastIndexOf('report')).toBeLessThan(types.indexOf('gap'))
}

const beforeTheEnd = [
  ...line(-80, -62),
  failREST('hang'),
  ...but(line(-60, -42), [-58, -56], stored),
]

const ending = (name: string, overlap: readonly Given[], gaps: readonly ExpectedGap[]): Group => ({
  stream: { maxReconnectAttempts: 3 },
  settle: 5000,
  sequences: [
    {
      name: `a stream that fails, with ${name}`,
      before: beforeTheEnd,
      meanwhile,
      after: [
        ...line(-30, -20),
        ...overlap,
        ...line(-14, -2),
        500,
        ({ service }) => service.stop(),
      ],
      gaps: ({ outage }) => [
        [-59, -56, 'unavailable'],
        ...(outage ? ([[-41, -32, 'unavailable']] as const) : []),
        ...gaps,
      ],
      hasErrors: true,
      pages: [8, 9],
      check: ({ emitted }) => expectReportsFirst(emitted),
    },
  ],
})

const endings: readonly Group[] = [
  ending('ranges open', line(-18, -16), []),
  ending(
    'ranges open and one in an overlap',
    [
      { at: -18, ...stored },
      { at: -16, from: -25 },
    ],
    [[-19, -17, 'unavailable']],
  ),
]

const closing: Group = {
  settle: 1500,
  sequences: [
    {
      name: 'a stream that the user closes, with ranges open',
      before: beforeTheEnd,
      meanwhile,
      after: [...line(-30, -2), 500, ({ close }) => close()],
      isClosed: true,
      pages: [4, 5],
    },
  ],
}

const bound: Group = {
  continuity: { maxBackfill: 20_000 },
  sequences: [
    {
      name: 'more is missing than maxBackfill',
      before: [...line(-180, -170), ...line(-168, -92).map(move => ({ ...move, ...stored }))],
      meanwhile: line(-90, -80),
      after: line(-78, -2),
      gaps: 'any',
      pages: [5, 9],
      check({ emitted, delivered }) {
        expect(emitted.flatMap(each => (each.type === 'gap' ? [each.cause] : []))).toEqual([
          'backfill-limit',
        ])
        expect(delivered.length).toBeGreaterThanOrEqual(6 + 9 + 39)
      },
    },
  ],
}

playAll([badPages, mute, quiet, unanswered('hang'), unanswered(503), ...endings, closing, bound])
