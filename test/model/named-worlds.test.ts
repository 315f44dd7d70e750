// The worlds in which streams have lost, doubled or invented something, each by its name.
import { expect, test } from '@jest/globals'
import type { Gap } from '../../report/gaps.js'
import { isFull } from '../support/tier.js'
import { checkWorld } from './worlds/check.js'
import { type NamedWorld, namedWorlds } from './worlds/named-worlds.js'
import { overlookedWorlds } from './worlds/overlooked-worlds.js'
import { runWorld } from './worlds/run-world.js'

const orders = ['arrival', 'sorted'] as const
/** Each world in both orders, in `npm test` in one of them. */
const cases = [...namedWorlds, ...overlookedWorlds].flatMap((each, at) =>
  orders.filter((_, index) => isFull || index === at % 2).map(order => ({ ...each, order })),
)

test.each(cases)('$name: each is delivered once, $order', async given => {
  const world = { ...given.world, continuity: { order: given.order } }
  const outcome = await runWorld(world)
  const { sessions, requests } = outcome
  const seen = {
    broken: checkWorld(outcome).broken.filter(text => !isExpected(given, text)),
    gaps: sessions.flatMap(({ feeds }) => feeds.flatMap(({ gaps }) => gaps)).filter(isWrong),
    conflicts: sessions.flatMap(({ conflicts }) => conflicts).length,
    tooManyPages: Math.max(0, requests.length - given.pages),
  }
  /** In none of these worlds is anything gone for good. */
  function isWrong({ from, to }: Gap): boolean {
    const [{ observations = [] } = {}] = world.feeds
    return !given.hasFalseClaim || observations.some(each => each.to >= from && each.to <= to)
  }
  const expected = { broken: [], gaps: [], conflicts: given.conflicts ?? 0, tooManyPages: 0 }
  try {
    expect(seen).toEqual(expected)
  } catch (thrown) {
    console.log((await runWorld(world, true)).story.join('\n'))
    throw thrown
  }
})

/** The rules of all worlds have no conflicts, and version 1 misses what it misses. */
function isExpected({ conflicts, isUntouched }: NamedWorld, text: string): boolean {
  return (
    (conflicts !== undefined && text.startsWith('conflict:')) ||
    (isUntouched === true && text.startsWith('lost:'))
  )
}
