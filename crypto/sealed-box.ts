import { blake2b } from '@noble/hashes/blake2b'
import nacl from 'tweetnacl'
import { ValidationError } from '../core/errors.js'
import { isBytes } from '../core/options.js'
import { formatKey } from './hex-key.js'

/** An X25519 key pair. */
export interface BoxKeys {
  /** 32 bytes. */
  readonly publicKey: Uint8Array
  /** 32 bytes. */
  readonly secretKey: Uint8Array
}

/**
 * The points of low order on the curve and on its twist: 0, 1 and p - 1, the two of order 8, and p and p + 1, which RFC 7748
 * reads as 0 and 1. With them every secret key yields the same shared secret, zero (RFC 7748, section 6.1), so everybody can
 * open a box sealed to one of them.
 */
const LOW_ORDER: ReadonlySet<string> = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
  '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
])

/** False for a wrong number of bytes, and for a point of low order. */
export function isPublicKey(key: Uint8Array): boolean {
  if (key.byteLength !== nacl.box.publicKeyLength) return false
  // The top bit is not part of the number.
  return !LOW_ORDER.has(formatKey(key.map((byte, at) => (at === 31 ? byte & 0x7f : byte))))
}

/** Checks another party's X25519 public key. */
export function checkPublicKey(field: string, key: unknown): Uint8Array {
  if (!isBytes(key) || key.byteLength !== nacl.box.publicKeyLength)
    throw new ValidationError(`${field} must be a Uint8Array of ${nacl.box.publicKeyLength} bytes`)
  if (!isPublicKey(key))
    throw new ValidationError(
      `${field} must not be a point of low order: anybody could open a box sealed to it`,
    )
  return key
}

/** Makes a fresh key pair, or the pair of a given secret key. */
export function boxKeys(secretKey?: Uint8Array): BoxKeys {
  return secretKey === undefined ? nacl.box.keyPair() : nacl.box.keyPair.fromSecretKey(secretKey)
}

/**
 * Makes an anonymous box, as libsodium's crypto_box_seal does: only the recipient can open it, and it does not identify the
 * sender. Layout: a fresh public key (32 bytes), then the box with the nonce BLAKE2b-192(fresh key ‖ recipient).
 */
export function seal(message: Uint8Array, recipient: Uint8Array): Uint8Array {
  checkPublicKey('recipient', recipient)
  const fresh = nacl.box.keyPair()
  const box = nacl.box(message, sealNonce(fresh.publicKey, recipient), recipient, fresh.secretKey)
  fresh.secretKey.fill(0)
  return concat(fresh.publicKey, box)
}

/** Opens an anonymous box; undefined if it was sealed to another key or changed. */
export function openSealed(sealed: Uint8Array, keys: BoxKeys): Uint8Array | undefined {
  if (sealed.byteLength < nacl.box.publicKeyLength + nacl.box.overheadLength) return undefined
  const sender = sealed.subarray(0, nacl.box.publicKeyLength)
  if (!isPublicKey(sender)) return undefined
  const box = sealed.subarray(nacl.box.publicKeyLength)
  return nacl.box.open(box, sealNonce(sender, keys.publicKey), sender, keys.secretKey) ?? undefined
}

function sealNonce(sender: Uint8Array, recipient: Uint8Array): Uint8Array {
  return blake2b(concat(sender, recipient), { dkLen: nacl.box.nonceLength })
}

/** Makes NaCl's box, which only the recipient can open and only the sender can make. Layout: a fresh nonce, then the box. */
export function box(message: Uint8Array, recipient: Uint8Array, sender: BoxKeys): Uint8Array {
  checkPublicKey('recipient', recipient)
  const nonce = nacl.randomBytes(nacl.box.nonceLength)
  return concat(nonce, nacl.box(message, nonce, recipient, sender.secretKey))
}

/** Opens a box; undefined if another sender made it or it was changed. */
export function openBox(
  boxed: Uint8Array,
  sender: Uint8Array,
  keys: BoxKeys,
): Uint8Array | undefined {
  if (boxed.byteLength < nacl.box.nonceLength + nacl.box.overheadLength) return undefined
  if (!isPublicKey(sender)) return undefined
  const nonce = boxed.subarray(0, nacl.box.nonceLength)
  return (
    nacl.box.open(boxed.subarray(nacl.box.nonceLength), nonce, sender, keys.secretKey) ?? undefined
  )
}

/** Joins two byte arrays. */
export function concat(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.byteLength + second.byteLength)
  both.set(first)
  both.set(second, first.byteLength)
  return both
}
