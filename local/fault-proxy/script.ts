import { seededRandom } from '../random.js'
import type { Direction, Rule } from './rules.js'

/** Which faults strike a connection, and where. To be asked once about each place, in order. */
export interface ConnectionScript {
  /** The faults of its coming in. */
  readonly opening: () => Rule[]
  /** The faults of a frame. */
  readonly frame: (number: number) => Rule[]
  /** The faults of a direction behind the bytes of an interval, its first not included. */
  readonly bytes: (direction: Direction, from: number, to: number) => { at: number; rule: Rule }[]
  /** The next fault that is due more than so many ms after the opening, and when, of each rule. */
  readonly later: (ms: number, rule: Rule) => number | undefined
  /** The rules whose faults are due by time. */
  readonly timed: readonly Rule[]
  /** Whether the fault strikes where it could. */
  readonly decide: (rule: Rule) => boolean
}

/** What a proxy does by itself. */
export type Script = (connection: number) => ConnectionScript

/** The first place behind another where a rule may strike. */
function nextPlace({ first, every }: Rule, behind: number): number | undefined {
  if (behind < first) return first
  return every > 0 ? first + (Math.floor((behind - first) / every) + 1) * every : undefined
}

/** A script's decisions: each rule has its own chance in each connection, and its number of strikes in all. */
export function createScript(rules: readonly Rule[], seed: number): Script {
  const left = rules.map(({ times }) => times)

  return function forConnection(connection) {
    const chances = new Map<Rule, () => number>()
    const mine = rules.filter(({ only = connection }) => only === connection)
    const of = (unit: Rule['unit']): Rule[] => mine.filter(rule => rule.unit === unit)
    const [framed, counted, timed] = [of('frame'), of('bytes'), of('ms')]

    function chanceOf(rule: Rule): number {
      const chance =
        chances.get(rule) ?? seededRandom(seed, `rule ${rule.index} connection ${connection}`)
      chances.set(rule, chance)
      return chance()
    }

    function decide(rule: Rule): boolean {
      const remaining = left[rule.index] as number
      if (remaining <= 0) return false
      if (rule.probability < 1 && chanceOf(rule) >= rule.probability) return false
      left[rule.index] = remaining - 1
      return true
    }

    const strikesAt = (place: number) => (rule: Rule) =>
      nextPlace(rule, place - 1) === place && decide(rule)

    return {
      opening: () => of('connection').filter(strikesAt(connection)),
      frame: number => framed.filter(strikesAt(number)),
      bytes(direction, from, to) {
        const strikes: { at: number; rule: Rule }[] = []
        for (const rule of counted) {
          if ((rule.direction === 'up') !== (direction === 'up')) continue
          for (
            let at = nextPlace(rule, from);
            at !== undefined && at <= to;
            at = nextPlace(rule, at)
          ) {
            if (decide(rule)) strikes.push({ at, rule })
          }
        }
        return strikes
      },
      later: (ms, rule) => nextPlace(rule, ms),
      timed,
      decide,
    }
  }
}
