/** The ranges of the charts by name, in milliseconds. */
export const ranges = { '5m': 300_000, '15m': 900_000, '1h': 3_600_000, '6h': 21_600_000 } as const
/** The name of a range. */
export type RangeName = keyof typeof ranges

/** How many buckets a range has. A bucket of the shortest range is longer than a sample. */
export const BUCKETS = 120

/** A range of a series: a bucket has what was added in a span of `widthMs`; null if nothing was. */
export interface Course {
  /** When the first bucket begins, in Unix milliseconds. */
  readonly from: number
  readonly widthMs: number
  /** The least value of each bucket, the oldest bucket first. */
  readonly low: readonly (number | null)[]
  readonly high: readonly (number | null)[]
  readonly mean: readonly (number | null)[]
}

/**
 * Values over time, in the same number of buckets for each range, however many values are added. A
 * bucket has the least, the greatest and the mean value, so that no spike is lost.
 */
export class Series {
  readonly #rings = Object.values(ranges).map(ms => new Ring(ms / BUCKETS))

  add(value: number, at: number): void {
    for (const ring of this.#rings) ring.add(value, at)
  }

  /** Adds a value to each bucket of a span that includes both ends. */
  addSpan(value: number, from: number, to: number): void {
    for (const ring of this.#rings) ring.addSpan(value, from, to)
  }

  read(range: RangeName, now: number): Course {
    return this.#ringOf(range).read(now)
  }

  /** The width of a range's buckets, in milliseconds. */
  static widthOf(range: RangeName): number {
    return ranges[range] / BUCKETS
  }

  #ringOf(range: RangeName): Ring {
    return this.#rings[Object.keys(ranges).indexOf(range)] as Ring
  }
}

/** The buckets of one range. A bucket is used again for the time that is a range later. */
class Ring {
  readonly #width: number
  readonly #low = new Float64Array(BUCKETS)
  readonly #high = new Float64Array(BUCKETS)
  readonly #sum = new Float64Array(BUCKETS)
  readonly #count = new Uint32Array(BUCKETS)
  /** The number of the newest bucket; the first began at the Unix epoch. */
  #newest = Number.NEGATIVE_INFINITY

  constructor(width: number) {
    this.#width = width
  }

  add(value: number, at: number): void {
    this.#put(value, Math.floor(at / this.#width))
  }

  addSpan(value: number, from: number, to: number): void {
    const last = Math.floor(to / this.#width)
    const first = Math.max(Math.floor(from / this.#width), last - BUCKETS + 1)
    for (let number = first; number <= last; number++) this.#put(value, number)
  }

  read(now: number): Course {
    const last = Math.floor(now / this.#width)
    const numbers = Array.from({ length: BUCKETS }, (_, index) => last - BUCKETS + 1 + index)
    const read = (valueAt: (slot: number) => number): (number | null)[] =>
      numbers.map(number => {
        const slot = slotOf(number)
        const isKnown = number > this.#newest - BUCKETS && number <= this.#newest
        return isKnown && this.#count[slot] !== 0 ? valueAt(slot) : null
      })
    return {
      from: (last - BUCKETS + 1) * this.#width,
      widthMs: this.#width,
      low: read(slot => this.#low[slot] as number),
      high: read(slot => this.#high[slot] as number),
      mean: read(slot => (this.#sum[slot] as number) / (this.#count[slot] as number)),
    }
  }

  #put(value: number, number: number): void {
    if (number <= this.#newest - BUCKETS) return
    // The buckets between the newest and this one have got nothing.
    for (let next = Math.max(this.#newest, number - BUCKETS) + 1; next <= number; next++)
      this.#count[slotOf(next)] = 0
    this.#newest = Math.max(this.#newest, number)
    const slot = slotOf(number)
    const isFirst = this.#count[slot] === 0
    this.#low[slot] = isFirst ? value : Math.min(this.#low[slot] as number, value)
    this.#high[slot] = isFirst ? value : Math.max(this.#high[slot] as number, value)
    this.#sum[slot] = isFirst ? value : (this.#sum[slot] as number) + value
    this.#count[slot] = (this.#count[slot] as number) + 1
  }
}

/** The slot of a bucket, also of one before the epoch. */
const slotOf = (number: number): number => ((number % BUCKETS) + BUCKETS) % BUCKETS
