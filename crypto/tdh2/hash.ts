import { sha256 } from '@noble/hashes/sha2'
import { GROUP, type Point, pointDigits, reduceDigest } from './group.js'

/*
 * The hashes of TDH2 (Shoup and Gennaro, “Securing Threshold Cryptosystems against Chosen Ciphertext Attack”): SHA-256 of
 * a tag of 9 bytes and the concatenated parts, without their lengths. H3 of the paper makes the second generator, which the
 * public key holds already.
 */

/** H1: hashes one point to a one-time pad of 32 bytes. */
export function hashToPad(point: Point): Uint8Array {
  return sha256(`tdh2hash1${cat([point])}`)
}

/** H2, the challenge of a ciphertext: hashes c (32 bytes), the label (32 bytes) and the points u, w, ū and w̄. */
export function hashCiphertext(
  c: Uint8Array,
  label: Uint8Array,
  points: readonly (Point | undefined)[],
): bigint {
  const digest = sha256.create().update('tdh2hash2').update(c).update(label).update(cat(points))
  return reduceDigest(digest.digest())
}

/** H4, the challenge of a decryption share: hashes the points uᵢ, û and ĥ. */
export function hashShare(points: readonly (Point | undefined)[]): bigint {
  return reduceDigest(sha256(`tdh2hash4${cat(points)}`))
}

function cat(points: readonly (Point | undefined)[]): string {
  return [GROUP, ...points.map(pointDigits)].join(',')
}
