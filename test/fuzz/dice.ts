/** Random choices that depend on a seed alone (xorshift). */
export interface Dice {
  /** 0 to `limit - 1`. */
  below(limit: number): number
  pick<Item>(items: readonly Item[]): Item
  /** True once in so many times. */
  once(inTimes: number): boolean
  /** Lengths of all magnitudes alike, up to `2 ** bits - 1`. */
  length(bits: number): number
}

/** Dice for the input of a number: each input can be made again without those before it. */
export function createDice(seed: number, number: number): Dice {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(number + 1, 0xc2b2ae35)
  state = Math.imul(state ^ (state >>> 16), 0x7feb352d) || 1

  function next(): number {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
  for (let round = 0; round < 4; round++) next()

  const below = (limit: number): number => Math.floor((next() / 2 ** 32) * limit)
  return {
    below,
    pick: <Item>(items: readonly Item[]) => items[below(items.length)] as Item,
    once: inTimes => below(inTimes) === 0,
    length: bits => below(2 ** below(bits + 1)),
  }
}
