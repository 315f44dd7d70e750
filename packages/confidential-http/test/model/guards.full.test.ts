// own realm: replaces modules, and the clock
// Each guard of a resharing is needed: without it a world breaks a rule (resharing.test.ts says what worlds are).
//
//   npm test -- packages/confidential-http/test/model/guards
//   RESHARING_MOST=100000 …                                         looks for longer
import { expect, test } from '@jest/globals'
import { GUARDS, SEEDS, UNSHOWN } from './resharing/guards.js'
import { ground } from './resharing/mocks.js'
import { play } from './resharing/play.js'

const MOST = Number(process.env.RESHARING_MOST ?? 10_000)
const LIMIT = process.env.RESHARING_MOST === undefined ? 180_000 : 24 * 3_600_000
const guards = Object.keys(GUARDS).filter(each => !UNSHOWN.has(each))

test.each(guards)(
  'without %s a rule is broken',
  async guard => {
    ground.out = guard
    let seed = SEEDS.get(guard) ?? 1
    const end = seed + MOST
    while ((await play(seed)).broken.length === 0 && seed < end) seed++
    ground.out = undefined
    expect(seed).toBeLessThan(end)
  },
  LIMIT,
)
