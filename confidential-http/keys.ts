import { ValidationError } from '../core/errors.js'
import { formatKey, parseKey } from '../crypto/hex-key.js'
import { boxKeys, checkPublicKey } from '../crypto/sealed-box.js'

/** A key pair for a caller or an enclave, each half 64 hexadecimal digits. */
export interface KeyPair {
  /** What others know it by. */
  readonly publicKey: string
  /** What only it knows. */
  readonly secretKey: string
}

/** The top bit of the last byte: zero in a public key of X25519, without meaning in a secret one (RFC 7748, section 5). */
const SECRET_BIT = 0x80
const LAST = 31

/** Makes a key pair for a caller or an enclave; that of a secret key where one is given. */
export function createKeys(secretKey?: string): KeyPair {
  const keys = boxKeys(secretKey === undefined ? undefined : parseKey('secretKey', secretKey))
  // So that it is known for what it is where it is given in place of the public one.
  if (secretKey === undefined) keys.secretKey[LAST] = (keys.secretKey[LAST] ?? 0) | SECRET_BIT
  return { publicKey: formatKey(keys.publicKey), secretKey: formatKey(keys.secretKey) }
}

/** Somebody else's public key from its digits. Refuses a secret one, where that shows: all that `createKeys` makes do. */
export function parsePublicKey(field: string, given: unknown): Uint8Array {
  const key = checkPublicKey(field, parseKey(field, given))
  if (((key[LAST] ?? 0) & SECRET_BIT) !== 0)
    throw new ValidationError(
      `${field} must be a public key, which sluice keygen prints: a secret one was given`,
    )
  return key
}
