import { blake2b } from '@noble/hashes/blake2b'
import nacl from 'tweetnacl'
import { ValidationError } from '../core/errors.js'
import {
  exportX25519,
  generateX25519,
  importX25519,
  multiplyX25519,
  type X25519Key,
} from '../platform/x25519.js'
import { checkBytes, concat, formatKey } from './bytes.js'

/** An X25519 key pair. */
export interface BoxKeys {
  /** The public key, 32 bytes. */
  readonly publicKey: Uint8Array
  /** The secret key, 32 bytes. */
  readonly secretKey: Uint8Array
}

/**
 * The points of low order on the curve and on its twist. They are 0, 1, p - 1 and the two points of
 * order 8. The list also has p and p + 1, which RFC 7748 reads as 0 and 1. Every secret key yields
 * the same shared secret, zero, with such a point (RFC 7748, section 6.1). So everybody can open a
 * box sealed to a point of low order.
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

/** Tells whether a key has the right length and is not a point of low order. */
export function isPublicKey(key: Uint8Array): boolean {
  if (key.byteLength !== nacl.box.publicKeyLength) return false
  // The top bit is not part of the number, so this clears it before the comparison.
  return !LOW_ORDER.has(formatKey(key.map((byte, at) => (at === 31 ? byte & 0x7f : byte))))
}

/** Checks another party's X25519 public key. */
export function checkBoxPublicKey(field: string, key: unknown): Uint8Array {
  const bytes = checkBytes(field, key, nacl.box.publicKeyLength)
  if (isPublicKey(bytes)) return bytes
  throw new ValidationError(
    `${field} must not be a point of low order: anybody could open a box sealed to it`,
  )
}

/**
 * Makes a fresh key pair, or the pair of a given secret key. Wipe a pair with `secretKey.fill(0)`:
 * `importKey` treats a secret key of zeros as wiped.
 */
export function boxKeys(secretKey?: Uint8Array): BoxKeys {
  if (secretKey !== undefined) return nacl.box.keyPair.fromSecretKey(secretKey)
  const pair = generateX25519()
  if (pair === undefined) return nacl.box.keyPair()
  const exported = exportX25519(pair.key)
  imported.set(exported, pair.key)
  return { publicKey: pair.publicKey, secretKey: exported }
}

/** Caches the platform's key objects. Each is found by the byte array of its secret key. */
const imported = new WeakMap<Uint8Array, X25519Key>()

function importKey(secretKey: Uint8Array): X25519Key | undefined {
  if (secretKey.every(byte => byte === 0)) {
    imported.delete(secretKey)
    return undefined
  }
  const key = imported.get(secretKey) ?? importX25519(secretKey)
  if (key !== undefined) imported.set(secretKey, key)
  return key
}

/**
 * HSalsa20, which derives a key from a product. The library has it, but does not declare its type.
 */
const { crypto_core_hsalsa20: hsalsa20 } = (
  nacl as unknown as {
    readonly lowlevel: {
      crypto_core_hsalsa20(
        key: Uint8Array,
        input: Uint8Array,
        product: Uint8Array,
        constant: Uint8Array,
      ): void
    }
  }
).lowlevel
const HSALSA20_INPUT = new Uint8Array(16)
const HSALSA20_CONSTANT = Uint8Array.from('expand 32-byte k', char => char.charCodeAt(0))

/**
 * Computes NaCl's shared key of two parties, with the same result as `nacl.box.before`. Uses the
 * platform's X25519 if it has one.
 */
export function sharedKey(other: Uint8Array, secretKey: Uint8Array): Uint8Array {
  const native = importKey(secretKey)
  const product = native === undefined ? undefined : multiplyX25519(native, other)
  return product === undefined ? nacl.box.before(other, secretKey) : hashProduct(product)
}

function hashProduct(product: Uint8Array): Uint8Array {
  const key = new Uint8Array(nacl.box.sharedKeyLength)
  hsalsa20(key, HSALSA20_INPUT, product, HSALSA20_CONSTANT)
  product.fill(0)
  return key
}

function sealWith(key: Uint8Array, message: Uint8Array, nonce: Uint8Array): Uint8Array {
  const sealed = nacl.box.after(message, nonce, key)
  key.fill(0)
  return sealed
}

function openWith(key: Uint8Array, boxed: Uint8Array, nonce: Uint8Array): Uint8Array | undefined {
  const opened = nacl.box.open.after(boxed, nonce, key)
  key.fill(0)
  return opened ?? undefined
}

/**
 * Makes an anonymous box, as libsodium's crypto_box_seal does. Only the recipient can open the box,
 * and the box does not identify the sender. Layout: a fresh public key (32 bytes), then the box
 * with the nonce BLAKE2b-192(fresh key ‖ recipient).
 */
export function seal(message: Uint8Array, recipient: Uint8Array): Uint8Array {
  checkBoxPublicKey('recipient', recipient)
  const { publicKey, key } = freshKey(recipient)
  return concat(publicKey, sealWith(key, message, sealNonce(publicKey, recipient)))
}

/**
 * Makes a fresh key pair for one box. Returns its public key, and the shared key of its secret key
 * and the recipient. Drops the secret key, because nobody needs it again.
 */
function freshKey(recipient: Uint8Array): { publicKey: Uint8Array; key: Uint8Array } {
  const pair = generateX25519()
  const product = pair && multiplyX25519(pair.key, recipient)
  if (pair !== undefined && product !== undefined)
    return { publicKey: pair.publicKey, key: hashProduct(product) }
  const { publicKey, secretKey } = nacl.box.keyPair()
  const key = nacl.box.before(recipient, secretKey)
  secretKey.fill(0)
  return { publicKey, key }
}

/**
 * Opens an anonymous box. Returns undefined if the box was sealed to another key or was changed.
 */
export function openSealed(sealed: Uint8Array, keys: BoxKeys): Uint8Array | undefined {
  if (sealed.byteLength < nacl.box.publicKeyLength + nacl.box.overheadLength) return undefined
  const sender = sealed.subarray(0, nacl.box.publicKeyLength)
  if (!isPublicKey(sender)) return undefined
  const box = sealed.subarray(nacl.box.publicKeyLength)
  return openWith(sharedKey(sender, keys.secretKey), box, sealNonce(sender, keys.publicKey))
}

function sealNonce(sender: Uint8Array, recipient: Uint8Array): Uint8Array {
  return blake2b(concat(sender, recipient), { dkLen: nacl.box.nonceLength })
}

/**
 * Makes NaCl's box. Only the recipient can open the box, and only the sender can make it. Layout: a
 * fresh nonce, then the box.
 */
export function box(message: Uint8Array, recipient: Uint8Array, sender: BoxKeys): Uint8Array {
  checkBoxPublicKey('recipient', recipient)
  const nonce = nacl.randomBytes(nacl.box.nonceLength)
  return concat(nonce, sealWith(sharedKey(recipient, sender.secretKey), message, nonce))
}

/** Opens a box. Returns undefined if another sender made the box or if it was changed. */
export function openBox(
  boxed: Uint8Array,
  sender: Uint8Array,
  keys: BoxKeys,
): Uint8Array | undefined {
  if (boxed.byteLength < nacl.box.nonceLength + nacl.box.overheadLength) return undefined
  if (!isPublicKey(sender)) return undefined
  const nonce = boxed.subarray(0, nacl.box.nonceLength)
  return openWith(sharedKey(sender, keys.secretKey), boxed.subarray(nacl.box.nonceLength), nonce)
}
