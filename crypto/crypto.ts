import { ValidationError } from '../core/errors.js'
import { loadWebCrypto } from '../platform/webcrypto.js'

/**
 * Bytes that no other thread can change, because their buffer is not shared. In TypeScript 5.7 and
 * later this type is `Uint8Array<ArrayBuffer>`.
 */
export type Bytes = Uint8Array & { readonly buffer: ArrayBuffer }

/**
 * The part of WebCrypto that this library uses. You can pass `globalThis.crypto` or any other
 * provider in place of the default provider.
 */
export interface WebCrypto {
  /** The operations that this library uses, as the standard defines them. */
  readonly subtle: {
    /** Computes the SHA-256 of the data. */
    digest(algorithm: 'SHA-256', data: Bytes): Promise<ArrayBuffer>
    /** Imports a key from its bytes. */
    importKey(
      format: 'raw',
      key: Bytes,
      algorithm: { readonly name: string; readonly hash?: string },
      extractable: boolean,
      usages: ('sign' | 'encrypt' | 'decrypt')[],
    ): Promise<WebCryptoKey>
    /** Computes the HMAC of the data with the hash function that the key was imported for. */
    sign(algorithm: 'HMAC', key: WebCryptoKey, data: Bytes): Promise<ArrayBuffer>
    /** Encrypts the data and appends the tag. */
    encrypt(algorithm: AesGcm, key: WebCryptoKey, data: Bytes): Promise<ArrayBuffer>
    /** Decrypts the output of `encrypt`. Rejects if the tag is wrong. */
    decrypt(algorithm: AesGcm, key: WebCryptoKey, data: Bytes): Promise<ArrayBuffer>
  }
  /** Fills the array with random bytes and returns it. */
  getRandomValues(array: Bytes): Bytes
}

/** AES-GCM with a 12-byte nonce and a 16-byte tag after the ciphertext. */
export interface AesGcm {
  readonly name: 'AES-GCM'
  readonly iv: Bytes
  /** The associated data. @default none */
  readonly additionalData?: Bytes
}

/** A key of a provider. */
export interface WebCryptoKey {
  /** The type of the key. Every key that this library imports has the type `secret`. */
  readonly type: string
}

let provider: Promise<WebCrypto> | undefined

/**
 * Returns the default provider: @peculiar/webcrypto on Node, and the platform's WebCrypto
 * elsewhere. The first call loads the provider.
 */
export function defaultCrypto(): Promise<WebCrypto> {
  provider ??= loadWebCrypto().then(loaded => {
    if (loaded === undefined)
      throw new ValidationError(
        'crypto is required: this platform has no WebCrypto, as a page over http: has none',
      )
    return loaded as WebCrypto
  })
  return provider
}
