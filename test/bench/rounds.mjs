// Sides in turns, and what their figures come to.

/** Runs each side once a round, each round beginning with another, and keeps what it returned. The first rounds don't count. */
export async function alternate(sides, { rounds, warmup = 1 }, run) {
  const results = Object.fromEntries(sides.map(side => [side, []]))
  for (let round = -warmup; round < rounds; round++) {
    for (let place = 0; place < sides.length; place++) {
      const side = sides[(place + round + warmup) % sides.length]
      const result = await run(side, round)
      if (round >= 0) results[side].push(result)
    }
  }
  return results
}

/** The middle, the least and the greatest of some numbers. */
export function spread(numbers) {
  const sorted = [...numbers].sort((one, other) => one - other)
  const middle = sorted.length >> 1
  const median =
    sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
  return { median, min: sorted[0], max: sorted.at(-1), rounds: sorted.length }
}

/** How many times the other's each of ours is, round by round. */
export const ratio = (ours, theirs) => spread(ours.map((value, round) => value / theirs[round]))
