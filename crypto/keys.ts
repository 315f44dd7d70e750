import { ValidationError } from '../core/errors.js'
import { formatKey, parseKey } from './bytes.js'
import { boxKeys, checkBoxPublicKey } from './sealed-box.js'

/** A key pair of a caller or an enclave, both keys as 64 hexadecimal digits. */
export interface KeyPair {
  /** The key to give to others. */
  readonly publicKey: string
  /**
   * The key that opens messages sealed to the public key. This property is not enumerable, so that
   * logs do not show the key.
   */
  readonly secretKey: string
}

/**
 * The top bit of the last byte marks a secret key here. The bit is zero in a public key of X25519
 * and ignored in a secret key (RFC 7748, section 5).
 */
const SECRET_BIT = 0x80
const LAST = 31

/** Makes a key pair for a caller or an enclave, or the pair of a given secret key. */
export function createKeys(secretKey?: string): KeyPair {
  const keys = boxKeys(secretKey === undefined ? undefined : parseKey('secretKey', secretKey))
  // Marks the secret key, so that `parsePublicKey` can reject it.
  if (secretKey === undefined) keys.secretKey[LAST] = (keys.secretKey[LAST] ?? 0) | SECRET_BIT
  const pair = { publicKey: formatKey(keys.publicKey) } as KeyPair
  return Object.freeze(
    Object.defineProperty(pair, 'secretKey', { value: formatKey(keys.secretKey) }),
  )
}

/**
 * Reads another party's public key from its digits. Rejects the secret keys that `createKeys`
 * makes.
 */
export function parseBoxPublicKey(field: string, given: unknown): Uint8Array {
  const key = checkBoxPublicKey(field, parseKey(field, given))
  if (((key[LAST] ?? 0) & SECRET_BIT) !== 0)
    throw new ValidationError(
      `${field} must be a public key, which sluice keygen prints: a secret one was given`,
    )
  return key
}
