// What a stream had seen of a feed, and when: from it follows what it could know.
import type { FeedLog, Passed } from './session.js'
import type { Observation } from './world.js'

/** What a stream has seen of one feed. */
export interface History {
  /** How many reports did not begin where the nearest one below them had ended, when they came. */
  readonly unlinked: number
  /** The nearest time seen below, and the nearest report above. */
  around(time: number): readonly [number | undefined, Passed | undefined]
  /**
   * Why a report could not be known: `unknown` for one that lies outside of what was asked for at all, undefined where
   * there is no reason.
   */
  reasonFor(observation: Observation): string | undefined
}

interface Pair {
  readonly below: number
  readonly above: number
}

/** Reads the order in which reports came in. */
export function createHistory({ cursor, entered, arrived }: FeedLog): History {
  const times: number[] = cursor === undefined ? [] : [cursor]
  /** Between what was once the earliest report and an earlier one that came later: nobody has said what is there. */
  let unasked: Pair[] = []
  let unlinked = 0

  function indexOf(time: number): number {
    let low = 0
    let high = times.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((times[middle] as number) < time) low = middle + 1
      else high = middle
    }
    return low
  }

  for (const { from, to } of entered.values()) {
    const at = indexOf(to)
    const below = times[at - 1]
    const above = times[at]
    if (below === undefined && above !== undefined) unasked.push({ below: to, above })
    else
      unasked = unasked.map(pair =>
        pair.below < to && to < pair.above ? { below: to, above: pair.above } : pair,
      )
    if (below !== undefined && below !== from - 1) unlinked++
    times.splice(at, 0, to)
  }

  function around(time: number): readonly [number | undefined, Passed | undefined] {
    const at = indexOf(time)
    return [times[at - 1], entered.get(times[at] ?? Number.NaN)]
  }

  return {
    unlinked,
    around,
    reasonFor({ to }) {
      const [below, above] = around(to)
      if (below === undefined || above === undefined) return 'unknown'
      if (unasked.some(pair => pair.below < to && to < pair.above)) return 'before the first'
      if (arrived.has(to)) return undefined
      // Never sent, inside the range that the next later report claims, and nothing that was seen lies in that range.
      if (above.from <= to && below < above.from)
        return below === above.from - 1 ? 'claimed' : 'claimed, after a gap'
      return undefined
    },
  }
}
