import { seededRandom } from '../random.js'
import type { Direction, Rule } from './rules.js'

/** A rule that is due. */
export interface Strike {
  readonly rule: Rule
  /** The frame it strikes, or the last one that had begun. */
  readonly frame: number
}

/** Decides which rules strike a connection, and where. Ask once about each place, in order. */
export interface ConnectionScript {
  readonly opening: () => Rule[]
  readonly frame: (number: number) => Rule[]
  /** The rules that strike after more than `from` and at most `to` bytes of a direction. */
  readonly bytes: (direction: Direction, from: number, to: number) => { at: number; rule: Rule }[]
  readonly timed: readonly Rule[]
  /** Whether a rule strikes where it could. */
  readonly decide: (rule: Rule) => boolean
}

/** The first place after `last` where a rule may strike; undefined if there is none. */
export function nextPlace({ first, every }: Rule, last: number): number | undefined {
  if (last < first) return first
  return every > 0 ? first + (Math.floor((last - first) / every) + 1) * every : undefined
}

/** A script's decisions. Each rule has its own chance per connection; `times` counts across connections. */
export function createScript(
  rules: readonly Rule[],
  seed: number,
): (connection: number) => ConnectionScript {
  const left = rules.map(({ times }) => times)

  return function forConnection(connection) {
    const chances = new Map<Rule, () => number>()
    const applicable = rules.filter(({ only = connection }) => only === connection)
    const rulesBy = (unit: Rule['unit']): Rule[] => applicable.filter(rule => rule.unit === unit)
    const byFrame = rulesBy('frame')
    const byBytes = rulesBy('bytes')

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
      opening: () => rulesBy('connection').filter(strikesAt(connection)),
      frame: number => byFrame.filter(strikesAt(number)),
      bytes(direction, from, to) {
        const strikes: { at: number; rule: Rule }[] = []
        for (const rule of byBytes) {
          if ((rule.direction === 'up') !== (direction === 'up')) continue
          let at = nextPlace(rule, from)
          for (; at !== undefined && at <= to; at = nextPlace(rule, at))
            if (decide(rule)) strikes.push({ at, rule })
        }
        return strikes
      },
      timed: rulesBy('ms'),
      decide,
    }
  }
}
