import { ValidationError } from '../../core/errors.js'
import { checkNumber, checkObject } from '../../core/options.js'
import { FieldReader, pointText, rejection, scalarText } from './encoding.js'
import { checkPoint, checkScalar, G, GROUP, isSamePoint, type Point, prepare } from './group.js'

/**
 * A public key. It encrypts data, and verifies ciphertexts and decryption shares. It is not secret.
 */
export interface PublicKey {
  /** The second generator, Ḡ: a multiple of G by an unknown factor. */
  readonly gBar: Point
  /** The master secret times G. */
  readonly h: Point
  /** For each holder, by index, its private share times G. Encryption does not need this array. */
  readonly hArray: readonly Point[]
}

/** One holder’s share of the master secret. */
export interface PrivateShare {
  /** The index of the holder in the public key’s `hArray`, from 0 on. */
  readonly index: number
  /**
   * The secret scalar. This property is not enumerable, so that logging or spreading a share does
   * not copy the scalar.
   */
  readonly v: bigint
}

/** The highest number of holders. A vault has far fewer. */
export const MAX_NODES = 1000

/**
 * Reads a public key from JSON text with Group, G_bar, H and HArray. Each point is the base64 of 65
 * bytes. Throws TDH2Error.
 */
export function parsePublicKey(json: string): PublicKey {
  const fields = FieldReader.ofGroup('public key', json)
  const [gBar, h] = [fields.point('G_bar'), fields.point('H')]
  // Nobody may know the factor of Ḡ. Then a proof would show nothing, and a holder could be made to
  // decrypt another ciphertext.
  if (isSamePoint(gBar, G)) throw rejection('public key', 'G_bar must not be the base point')
  if (isSamePoint(gBar, h)) throw rejection('public key', 'G_bar must not be H')
  return makePublicKey(gBar, h, fields.points('HArray', MAX_NODES))
}

/** Writes a public key as JSON, byte for byte as the reference implementation does. */
export function formatPublicKey(key: PublicKey): string {
  const { gBar, h, hArray } = checkPublicKey(key)
  return JSON.stringify({
    Group: GROUP,
    G_bar: pointText(gBar),
    H: pointText(h),
    HArray: Array.from(hArray, (point, at) =>
      pointText(checkPoint(`publicKey.hArray[${at}]`, point)),
    ),
  })
}

/**
 * Checks a public key from a caller. The points in `hArray` are checked later, when they are used.
 */
export function checkPublicKey(key: PublicKey): PublicKey {
  const { gBar, h, hArray } = checkObject('publicKey', key)
  checkPoint('publicKey.gBar', gBar)
  checkPoint('publicKey.h', h)
  if (!Array.isArray(hArray)) throw new ValidationError('publicKey.hArray must be an array')
  return key
}

/** Makes an immutable public key. */
export function makePublicKey(gBar: Point, h: Point, hArray: readonly Point[]): PublicKey {
  // A key is used more than once, so preparing its points saves time.
  prepare(gBar)
  prepare(h)
  return Object.freeze({ gBar, h, hArray: Object.freeze(hArray) })
}

/**
 * Reads a private share from JSON text with Group, Index and V. V is the scalar as base64 of 32
 * bytes. Throws TDH2Error.
 */
export function parsePrivateShare(json: string): PrivateShare {
  const fields = FieldReader.ofGroup('private share', json)
  return makePrivateShare(fields.index(), fields.nonzeroScalar('V'))
}

/**
 * Writes a private share as JSON, byte for byte as the reference implementation does. The text is
 * secret.
 */
export function formatPrivateShare(share: PrivateShare): string {
  const { index, v } = checkPrivateShare(share)
  return JSON.stringify({ Group: GROUP, Index: index, V: scalarText(v) })
}

/** Makes an immutable private share. */
export function makePrivateShare(index: number, v: bigint): PrivateShare {
  return Object.freeze(Object.defineProperty({ index } as PrivateShare, 'v', { value: v }))
}

/** Checks a private share from a caller. */
export function checkPrivateShare(share: PrivateShare): PrivateShare {
  const { index, v } = checkObject('share', share)
  checkNumber('share.index', index, { min: 0, whole: true })
  checkScalar('share.v', v)
  return share
}

/**
 * Reads a master secret from JSON text with Group and S. S is the base64 of 32 bytes. Throws
 * TDH2Error.
 */
export function parseMasterSecret(json: string): bigint {
  return FieldReader.ofGroup('master secret', json).nonzeroScalar('S')
}

/** Writes a master secret as JSON, byte for byte as the reference implementation does. */
export function formatMasterSecret(masterSecret: bigint): string {
  return JSON.stringify({
    Group: GROUP,
    S: scalarText(checkScalar('masterSecret', masterSecret)),
  })
}

/** The option rule for a threshold, which is the number of shares needed to decrypt. */
export function checkThreshold(field: string, threshold: unknown): number {
  if (typeof threshold === 'number' && threshold < 1)
    throw new ValidationError(`${field} has to be positive, not ${threshold}`)
  return checkNumber(field, threshold, { min: 1, max: MAX_NODES, whole: true })
}
