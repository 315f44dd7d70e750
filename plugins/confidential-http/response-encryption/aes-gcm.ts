import { ValidationError } from '../../../core/errors.js'
import {
  type AesGcm,
  type Bytes,
  defaultCrypto,
  type WebCrypto,
  type WebCryptoKey,
} from '../../../crypto/crypto.js'
import { EnclaveError } from '../errors.js'

/** In bytes. */
const KEY = 32
const NONCE = 12
const TAG = 16

/**
 * Encrypts with AES-256-GCM under a fresh random nonce:
 *
 *     12 bytes   nonce
 *     n bytes    ciphertext, as long as the plaintext
 *     16 bytes   tag
 */
export async function sealAesGcm(
  key: Uint8Array,
  plaintext: Uint8Array,
  crypto?: WebCrypto,
  associatedData?: Bytes,
): Promise<Uint8Array> {
  const provider = crypto ?? (await defaultCrypto())
  const iv = provider.getRandomValues(new Uint8Array(NONCE))
  const algorithm = algorithmOf(iv, associatedData)
  const imported = await importKey(provider, key, 'encrypt')
  const copy = new Uint8Array(plaintext)
  const sealed = await provider.subtle
    .encrypt(algorithm, imported, copy)
    .finally(() => copy.fill(0))
  const blob = new Uint8Array(NONCE + sealed.byteLength)
  blob.set(iv)
  blob.set(new Uint8Array(sealed), NONCE)
  return blob
}

/** Decrypts the bytes that `sealAesGcm` returns. Throws EnclaveError, code `ENCRYPTION`, for another key or changed bytes. */
export async function openAesGcm(
  key: Uint8Array,
  blob: Uint8Array,
  crypto?: WebCrypto,
  associatedData?: Bytes,
): Promise<Uint8Array> {
  const provider = crypto ?? (await defaultCrypto())
  if (blob.byteLength < NONCE + TAG)
    throw notOpened(
      `encrypted bytes must be at least ${NONCE + TAG}, nonce and tag, not ${blob.byteLength}`,
    )
  const algorithm = algorithmOf(new Uint8Array(blob.subarray(0, NONCE)), associatedData)
  const imported = await importKey(provider, key, 'decrypt')
  try {
    const sealed = new Uint8Array(blob.subarray(NONCE))
    return new Uint8Array(await provider.subtle.decrypt(algorithm, imported, sealed))
  } catch {
    throw notOpened(
      associatedData === undefined
        ? 'encrypted bytes do not open: the key is another, or they were changed'
        : 'encrypted bytes do not open: the key, the status or the id of the request is another, or they were changed',
    )
  }
}

function algorithmOf(iv: Bytes, additionalData: Bytes | undefined): AesGcm {
  return { name: 'AES-GCM', iv, ...(additionalData === undefined ? {} : { additionalData }) }
}

function importKey(
  { subtle }: WebCrypto,
  key: Uint8Array,
  usage: 'encrypt' | 'decrypt',
): Promise<WebCryptoKey> {
  if (key.byteLength !== KEY)
    throw new ValidationError(`key must be ${KEY} bytes, not ${key.byteLength}`)
  const copy = new Uint8Array(key)
  return subtle
    .importKey('raw', copy, { name: 'AES-GCM' }, false, [usage])
    .finally(() => copy.fill(0))
}

function notOpened(message: string): EnclaveError {
  return new EnclaveError(message, { code: 'ENCRYPTION' })
}
