/** Numbers from 0 to 1 that depend on the seed and the purpose alone. */
export function seededRandom(seed, purpose) {
  let state = [...`${seed} ${purpose}`].reduce(
    (hash, each) => (hash * 31 + each.charCodeAt(0)) >>> 0,
    7,
  )
  return function next() {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
