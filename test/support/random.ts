import { inForm } from './tier.js'

/** What fast-check is to do: so many runs in `npm test`, and so many in the full tier. */
export const randomRuns = (short: number, full: number): { readonly numRuns: number } => ({
  numRuns: inForm(short, full),
})

/** Choices that depend on a seed alone. */
export interface Random {
  /** From 0 to 1, without 1. */
  next(): number
  chance(probability: number): boolean
  /** A whole number, both ends included. */
  pick(from: number, to: number): number
  of<Item>(items: readonly Item[]): Item
  /** The same items in another order. */
  shuffled<Item>(items: readonly Item[]): Item[]
}

/** Makes choices from a seed; seeds beside each other have nothing in common. */
export function createRandom(seed: number): Random {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b)
  function next(): number {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const pick = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1))
  return {
    next,
    chance: probability => next() < probability,
    pick,
    of<Item>(items: readonly Item[]) {
      return items[pick(0, items.length - 1)] as Item
    },
    shuffled<Item>(items: readonly Item[]) {
      const given = [...items]
      for (let index = given.length - 1; index > 0; index--) {
        const other = pick(0, index)
        const kept = given[index] as Item
        given[index] = given[other] as Item
        given[other] = kept
      }
      return given
    },
  }
}
