import { blake2b } from '@noble/hashes/blake2b'
import nacl from 'tweetnacl'

/** An X25519 key pair. */
export interface BoxKeys {
  /** 32 bytes. */
  readonly publicKey: Uint8Array
  /** 32 bytes. */
  readonly secretKey: Uint8Array
}

/** A fresh key pair; the one of a secret key where one is given. */
export function boxKeys(secretKey?: Uint8Array): BoxKeys {
  return secretKey === undefined ? nacl.box.keyPair() : nacl.box.keyPair.fromSecretKey(secretKey)
}

/**
 * NaCl's anonymous box, as libsodium's crypto_box_seal makes it: only the recipient can open it, and nothing in it says
 * who sealed it. 32 bytes of a fresh public key, then the box under the nonce BLAKE2b-192(fresh key ‖ recipient).
 */
export function seal(message: Uint8Array, recipient: Uint8Array): Uint8Array {
  const fresh = nacl.box.keyPair()
  const box = nacl.box(message, sealNonce(fresh.publicKey, recipient), recipient, fresh.secretKey)
  fresh.secretKey.fill(0)
  return concat(fresh.publicKey, box)
}

/** Opens what was sealed to these keys; undefined where it was not, or was changed on the way. */
export function openSealed(sealed: Uint8Array, keys: BoxKeys): Uint8Array | undefined {
  if (sealed.byteLength < nacl.box.publicKeyLength + nacl.box.overheadLength) return undefined
  const sender = sealed.subarray(0, nacl.box.publicKeyLength)
  const box = sealed.subarray(nacl.box.publicKeyLength)
  return nacl.box.open(box, sealNonce(sender, keys.publicKey), sender, keys.secretKey) ?? undefined
}

function sealNonce(sender: Uint8Array, recipient: Uint8Array): Uint8Array {
  return blake2b(concat(sender, recipient), { dkLen: nacl.box.nonceLength })
}

/** NaCl's box: the recipient can open it, and knows that nobody but the sender made it. A fresh nonce goes in front. */
export function box(message: Uint8Array, recipient: Uint8Array, sender: BoxKeys): Uint8Array {
  const nonce = nacl.randomBytes(nacl.box.nonceLength)
  return concat(nonce, nacl.box(message, nonce, recipient, sender.secretKey))
}

/** Opens a box of this sender; undefined where it is not one, or was changed on the way. */
export function openBox(
  boxed: Uint8Array,
  sender: Uint8Array,
  keys: BoxKeys,
): Uint8Array | undefined {
  if (boxed.byteLength < nacl.box.nonceLength + nacl.box.overheadLength) return undefined
  const nonce = boxed.subarray(0, nacl.box.nonceLength)
  return (
    nacl.box.open(boxed.subarray(nacl.box.nonceLength), nonce, sender, keys.secretKey) ?? undefined
  )
}

function concat(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.byteLength + second.byteLength)
  both.set(first)
  both.set(second, first.byteLength)
  return both
}
