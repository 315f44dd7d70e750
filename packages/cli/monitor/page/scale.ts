/** The share of values, the greatest ones, that a chart may cut. */
const SHARE = 0.05
/** So many values may be cut in any case: a spike may fall into two buckets. */
const FEW = 2
/** Of fewer values it is not known which are usual. */
const LEAST = 10
/** A value may be so many times as great before it is cut. */
const ROOM = 1.5

/** The greatest value that a chart shows, and the greatest of all. */
export interface Scale {
  /** Values above it are cut. */
  readonly top: number
  /** The greatest value and its index; undefined if there are no values. */
  readonly most: { readonly value: number; readonly index: number } | undefined
}

/**
 * Scales a chart by most of its values, so that one spike does not flatten the others. Nothing is
 * cut while the greatest value is not far above the others.
 */
export function scaleOf(values: readonly (number | null)[]): Scale {
  const known = values.filter(value => value !== null).sort((one, other) => one - other)
  const value = known.at(-1)
  if (value === undefined) return { top: 1, most: undefined }
  const spikes = known.length < LEAST ? 0 : Math.max(FEW, Math.floor(SHARE * known.length))
  const usual = known[known.length - 1 - spikes] as number
  const top = usual <= 0 ? value : Math.min(value, usual * ROOM)
  return { top: Math.max(top, Number.MIN_VALUE), most: { value, index: values.indexOf(value) } }
}
