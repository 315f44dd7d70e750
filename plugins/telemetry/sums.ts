import type { Bound } from './bounded.js'
import type { Attributes, MetricName } from './metrics.js'

/** A value of a metric, for some attributes. */
export interface Observation {
  /** The metric that it is of. */
  readonly metric: MetricName
  /** What tells it from others of the metric. */
  readonly attributes: Attributes
  /** The count or measure, in the unit of the metric. */
  readonly value: number
}

/** An observation that is added to. */
export type Sum = { -readonly [Name in keyof Observation]: Observation[Name] }

/** The values of metrics, by their attributes. */
export interface Sums {
  /** The sum of a metric for some attributes, 0 at first. */
  of(metric: MetricName, attributes?: Attributes): Sum
  add(metric: MetricName, value: number, attributes?: Attributes): void
  addAll(sums: Iterable<Observation>): void
  readonly all: Iterable<Observation>
}

/** Makes sums; there are none at first. `bound` bounds the values of attributes. */
export function createSums(bound: Bound): Sums {
  const sums = new Map<string, Sum>()

  function of(metric: MetricName, given: Attributes = {}): Sum {
    const attributes = bound(given)
    const key = [metric, ...Object.entries(attributes).flat()].join('\n')
    const known = sums.get(key)
    if (known !== undefined) return known
    const sum = { metric, attributes, value: 0 }
    sums.set(key, sum)
    return sum
  }

  function add(metric: MetricName, value: number, attributes?: Attributes): void {
    of(metric, attributes).value += value
  }

  return {
    of,
    add,
    addAll(others) {
      for (const { metric, value, attributes } of others) add(metric, value, attributes)
    },
    get all() {
      return sums.values()
    },
  }
}
