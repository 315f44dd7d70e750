// The real plugins continuity and dedup in random worlds, in virtual time: what is stored is delivered once or announced.
//
//   npm test -- test/model/worlds                            a few worlds
//   WORLD_RUNS=100000 npm test -- test/model/worlds.test     the long form
//   WORLD_FIRST=5000 …                                       other worlds: those from this seed on
//   WORLD_SEED=123 npm test -- test/model/worlds.test        one world, and all that happens in it
import { expect, test } from '@jest/globals'
import { inForm } from '../support/tier.js'
import { checkWorld } from './worlds/check.js'
import { randomWorld } from './worlds/random-world.js'
import { runWorld } from './worlds/run-world.js'

const { WORLD_RUNS, WORLD_FIRST, WORLD_SEED } = process.env
const RUNS = Number(WORLD_RUNS ?? inForm(30, 300))
const FIRST = Number(WORLD_FIRST ?? 1)
/** The limit of so many worlds is one of hours. */
const LIMIT = WORLD_RUNS === undefined ? undefined : 24 * 3_600_000
/** Of so many reports, one may be lost because nobody could know of it, at most. */
const REPORTS_PER_EXCUSE = 200
/** Of so many worlds, a report may be lost in one: docs/records/continuity.md says what such worlds are. */
const WORLDS_PER_LOSS = 50_000

/** A world in which a rule was broken. */
interface Failure {
  readonly seed: number
  readonly events: number
  readonly text: string
}

const worldsTest = WORLD_SEED === undefined ? test : test.skip

worldsTest(
  'in every world, what is stored is delivered once or announced, and little is asked for',
  async () => {
    const failures = new Map<string, Failure[]>()
    const sums = new Map<string, number>()
    const add = (name: string, count: number) => sums.set(name, (sums.get(name) ?? 0) + count)
    for (let seed = FIRST; seed < FIRST + RUNS; seed++) {
      const world = randomWorld(seed)
      const { broken, excused, counts } = checkWorld(await runWorld(world))
      for (const [name, count] of counts) add(name, count)
      for (const [name, count] of excused) {
        add(`excused, ${name}`, count)
        add('excused', count)
      }
      // The first of each rule.
      for (const text of new Map(broken.toReversed().map(each => [ruleOf(each), each])).values()) {
        const known = failures.get(ruleOf(text)) ?? []
        failures.set(ruleOf(text), known)
        known.push({ seed, events: world.events.length, text })
      }
    }
    if (WORLD_RUNS !== undefined) console.log(Object.fromEntries([...sums].sort()))
    if (failures.size > 0) console.log(await describe(failures))
    expect(failures.get('lost')?.length ?? 0).toBeLessThanOrEqual(RUNS / WORLDS_PER_LOSS)
    expect([...failures.keys()].filter(rule => rule !== 'lost')).toEqual([])
    const { excused = 0, reports = 0 } = Object.fromEntries(sums)
    expect(excused).toBeLessThan(20 + reports / REPORTS_PER_EXCUSE)
  },
  LIMIT,
)

if (WORLD_SEED !== undefined)
  test('a world', async () => {
    const world = randomWorld(Number(WORLD_SEED))
    const outcome = await runWorld(world, true)
    const { broken, excused } = checkWorld(outcome)
    console.log([...world.traits, ...outcome.story, ...broken, ...excused.keys()].join('\n'))
    expect(broken).toEqual([])
  })

function ruleOf(text: string): string {
  return text.slice(0, text.indexOf(':'))
}

/** Every broken rule with its smallest worlds, and what happened in the first of them. */
async function describe(failures: ReadonlyMap<string, Failure[]>): Promise<string> {
  const lines: string[] = []
  for (const [rule, worlds] of failures) {
    lines.push(`${rule}, in ${worlds.length} worlds`)
    const few = worlds.sort((one, other) => one.events - other.events).slice(0, 5)
    for (const { seed, events, text } of few)
      lines.push(`  WORLD_SEED=${seed}, ${events} events: ${text}`)
    const [first] = few as [Failure]
    const world = randomWorld(first.seed)
    const { story } = await runWorld(world, true)
    lines.push(...[...world.traits, ...excerpt(story, first.text)].map(line => `    ${line}`))
  }
  return lines.join('\n')
}

/** The lines of a story around those that name a time that the text names. */
function excerpt(story: readonly string[], text: string): string[] {
  const times = text.match(/\d{10,}/g) ?? []
  const named = story.map(line => times.some(time => line.includes(time)))
  const isNear = (at: number) => named.slice(Math.max(0, at - 2), at + 3).includes(true)
  return story.filter((_, at) => isNear(at)).slice(0, 60)
}
