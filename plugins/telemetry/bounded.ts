import type { Attributes } from './metrics.js'

/** Values of one attribute that are told apart. */
const MAX_VALUES = 100
const MAX_FEEDS = 1000
/** What other values are called: the semantic conventions' word. */
const OTHER = '_OTHER'

/** Bounds how many values each attribute has. */
export type Bound = (attributes: Attributes) => Attributes

/** Returns a function that bounds how many values each attribute has: what comes later is `_OTHER`. */
export function createBounds(): Bound {
  const known = new Map<string, Set<string | number>>()

  function bound(name: string, value: string | number): string | number {
    let values = known.get(name)
    if (values === undefined) {
      values = new Set()
      known.set(name, values)
    }
    if (values.has(value)) return value
    if (values.size === (name === 'sluice.feed.id' ? MAX_FEEDS : MAX_VALUES)) return OTHER
    values.add(value)
    return value
  }

  return function boundAll(attributes) {
    const bounded: Record<string, string | number> = {}
    for (const [name, value] of Object.entries(attributes)) bounded[name] = bound(name, value)
    return bounded
  }
}
