/** The slope of a line through points, by least squares, and its standard error. */
export function slopeOf(points) {
  const count = points.length
  if (count < 3) return { slope: 0, error: Number.POSITIVE_INFINITY }
  const mean = pick => points.reduce((sum, point) => sum + pick(point), 0) / count
  const [x, y] = [mean(point => point.x), mean(point => point.y)]
  const spread = points.reduce((sum, point) => sum + (point.x - x) ** 2, 0)
  const slope = points.reduce((sum, point) => sum + (point.x - x) * (point.y - y), 0) / spread
  const rest = points.reduce((sum, point) => sum + (point.y - y - slope * (point.x - x)) ** 2, 0)
  return { slope, error: Math.sqrt(rest / (count - 2) / spread) }
}

const LEAST_MINUTES = 5
/** In an hour, and in proportion in a shorter soak: until then code is compiled, and memories fill up. */
const WARM_UP = 10

/** How many minutes of the beginning say nothing of the slope. */
export const warmUpOf = minutes => Math.min(WARM_UP, (minutes * WARM_UP) / 60)

/** Whether a soak of so many minutes has a slope: in a shorter one the heap is still coming to rest. */
export const hasSlope = minutes => minutes >= LEAST_MINUTES

/** The slope of a soak's heap in words, with two standard errors. */
export const formatSlope = (minutes, { slope, error }) =>
  hasSlope(minutes)
    ? `${slope.toFixed(2)} ± ${(2 * error).toFixed(2)} MB/h`
    : `too short to tell: that takes ${LEAST_MINUTES} minutes or more`
