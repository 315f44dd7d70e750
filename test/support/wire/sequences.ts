/**
 * Plays sequences of genuine reports to clients, over real sockets, all beside each other, and compares what a client
 * delivers and announces with what the service has sent and stored. Each sequence is played four times: in both orders,
 * with an outage in its middle and without. The reports are those of minutes, published within two seconds.
 */
import { beforeAll, describe, expect, test } from '@jest/globals'
import { play } from './play-sequences.js'
import type { Emitted, Group, Outcome, Published, Sequence, Variant } from './sequence.js'

const variants: readonly Variant[] = [
  { order: 'arrival', outage: false },
  { order: 'arrival', outage: true },
  { order: 'sorted', outage: false },
  { order: 'sorted', outage: true },
]

const titleOf = ({ order, outage }: Variant): string =>
  `${order}, ${outage ? 'with an outage' : 'without an outage'}`

const gapsIn = (emitted: readonly Emitted[]) =>
  emitted
    .flatMap(each => (each.type === 'gap' ? [each] : []))
    .sort((one, other) => one.from - other.from)

const write = (from: number, to: number, cause: string): string => `${from} to ${to}: ${cause}`

/** What must be empty, whatever the sequence. */
function faultsOf({ emitted, delivered, published, variant }: Outcome, sequence: Sequence): object {
  const gaps = gapsIn(emitted)
  const counts = new Map<number, number>()
  for (const at of delivered) counts.set(at, (counts.get(at) ?? 0) + 1)
  const isIn = (at: number) => gaps.some(({ from, to }) => from <= at && at <= to)
  const filled = new Set(emitted.flatMap(each => (each.type === 'gap-filled' ? [each.at] : [])))
  const first = published.findIndex(({ given }) => counts.has(given.at))
  const due = published.slice(first).filter(({ isDue }) => isDue)
  const times = new Set(published.map(({ given }) => given.at))
  return {
    lost: due.map(({ given }) => given.at).filter(at => !counts.has(at) && !isIn(at)),
    doubled: [...counts].flatMap(([at, count]) => (count > 1 ? [at] : [])),
    invented: delivered.filter(at => !times.has(at)),
    announcedAndDelivered: [...counts.keys()].filter(at => isIn(at) && !filled.has(at)),
    filledWithoutGap: [...filled].filter(at => !isIn(at) || !counts.has(at)),
    outOfOrder: variant.order === 'sorted' ? outOfOrder(emitted, published, sequence) : [],
  }
}

/** The reports that came after a newer one although they should not. */
function outOfOrder(
  emitted: readonly Emitted[],
  published: readonly Published[],
  { unordered = [] }: Sequence,
): number[] {
  const wrong = new Set(published.flatMap(({ given }) => (given.isWrong ? [given.at] : [])))
  const late: number[] = []
  let newest = Number.NEGATIVE_INFINITY
  for (const each of emitted) {
    if (each.type !== 'report' || wrong.has(each.at)) continue
    const isFree =
      unordered === 'fetched' ? each.source === 'backfill' : unordered.includes(each.at)
    if (each.at < newest && !isFree) late.push(each.at)
    newest = Math.max(newest, each.at)
  }
  return late
}

/** The announced gaps; without those in which no report was made, if `onlyFilled`. */
function announced({ emitted, published }: Outcome, onlyFilled: boolean): string[] {
  const isFilled = (from: number, to: number) =>
    published.some(({ given: { at } }) => from <= at && at <= to)
  return gapsIn(emitted)
    .filter(({ from, to }) => !onlyFilled || isFilled(from, to))
    .map(({ from, to, cause }) => write(from, to, cause))
}

function expectedGaps(outcome: Outcome, gaps: Sequence['gaps'] = []): string[] {
  if (gaps === 'any') return announced(outcome, false)
  if (gaps === 'empty') return []
  const list = typeof gaps === 'function' ? gaps(outcome.variant) : gaps
  return list.map(([from, to, cause]) => write(from, to, cause))
}

function check(outcome: Outcome, sequence: Sequence): void {
  const { variant, emitted, pages, afterClose } = outcome
  const { gaps, conflicts = 0, hasErrors = false, isClosed = false } = sequence
  const none = { doubled: [], invented: [], announcedAndDelivered: [], filledWithoutGap: [] }
  const { lost, ...faults } = faultsOf(outcome, sequence) as { lost: number[] }
  const errors = outcome.errors.filter(
    ({ name }) => !variant.outage || !/WebSocket|Connection/.test(name),
  )
  const most = sequence.pages[variant.outage ? 1 : 0]
  expect({
    ...faults,
    lost: isClosed ? [] : lost,
    gaps: announced(outcome, gaps === 'empty'),
    conflicts: emitted.filter(({ type }) => type === 'conflict').length,
    pages: pages.length <= most ? 'within their bound' : pages,
    errors: hasErrors ? [] : errors.map(String),
    afterClose,
  }).toEqual({
    ...none,
    lost: [],
    outOfOrder: [],
    gaps: expectedGaps(outcome, gaps),
    conflicts,
    pages: 'within their bound',
    errors: [],
    afterClose: [],
  })
  sequence.check?.(outcome)
}

/** Plays all sequences in all variants beside each other, and adds a test for each. */
export function playAll(groups: readonly Group[]): void {
  const played = new Map<string, Promise<readonly Outcome[]>>()
  const keyOf = (group: Group, variant: Variant) => `${groups.indexOf(group)} ${titleOf(variant)}`
  beforeAll(async () => {
    for (const group of groups)
      for (const variant of variants) played.set(keyOf(group, variant), play(group, variant))
    await Promise.allSettled(played.values())
  }, 120_000)
  describe.each(variants.map(variant => [titleOf(variant), variant] as const))(
    '%s',
    (_, variant) => {
      for (const group of groups)
        for (const [index, sequence] of group.sequences.entries())
          test(sequence.name, async () => {
            const outcomes = await played.get(keyOf(group, variant))
            check(outcomes?.[index] as Outcome, sequence)
          })
    },
  )
}
