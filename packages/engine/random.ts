import { createHash } from 'node:crypto'

/** 32 bytes that depend only on the seed and the purpose. */
export function seededBytes(seed: number, purpose: string): Buffer {
  return createHash('sha256').update(`${seed} ${purpose}`).digest()
}

/** A generator of numbers in [0, 1) that depends only on the seed and the purpose (sfc32). */
export function seededRandom(seed: number, purpose: string): () => number {
  const bytes = seededBytes(seed, purpose)
  let a = bytes.readInt32LE(0)
  let b = bytes.readInt32LE(4)
  let c = bytes.readInt32LE(8)
  let counter = bytes.readInt32LE(12)
  return function next() {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return (sum >>> 0) / 2 ** 32
  }
}
