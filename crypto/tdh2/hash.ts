import { sha256 } from '@noble/hashes/sha2'
import { GROUP, type Point, pointDigits, reduceDigest } from './group.js'

/**
 * The hashes of TDH2 (Shoup and Gennaro, “Securing Threshold Cryptosystems against Chosen Ciphertext Attack”): SHA-256 of
 * a tag of 9 bytes and the parts as they are, without lengths between them. H3 of the paper, which makes the second
 * generator, has no use here: the public key carries it.
 */

/** H1, a one-time pad of 32 bytes: of one point. */
export function hashToPad(point: Point): Uint8Array {
  return sha256(`tdh2hash1${cat([point])}`)
}

/** H2, a ciphertext’s challenge: of the 32 bytes c, the 32 of the label, and the points u, w, ū and w̄. */
export function hashCiphertext(
  c: Uint8Array,
  label: Uint8Array,
  points: readonly (Point | undefined)[],
): bigint {
  const digest = sha256.create().update('tdh2hash2').update(c).update(label).update(cat(points))
  return reduceDigest(digest.digest())
}

/** H4, a decryption share’s challenge: of the points uᵢ, û and ĥ. */
export function hashShare(points: readonly (Point | undefined)[]): bigint {
  return reduceDigest(sha256(`tdh2hash4${cat(points)}`))
}

function cat(points: readonly (Point | undefined)[]): string {
  return [GROUP, ...points.map(pointDigits)].join(',')
}
