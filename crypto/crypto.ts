import { ValidationError } from '../core/errors.js'
import { loadWebCrypto } from '../platform/webcrypto.js'

/**
 * Bytes that no other thread can change. (In TypeScript 5.7 and later, `Uint8Array<ArrayBuffer>`.)
 */
export type Bytes = Uint8Array & { readonly buffer: ArrayBuffer }

/**
 * The part of WebCrypto that this library uses. `globalThis.crypto` or any other provider can
 * replace the default one.
 */
export interface WebCrypto {
  /** The operations that are used, as the standard has them. */
  readonly subtle: {
    /** Computes the SHA-256 of the data. */
    digest(algorithm: 'SHA-256', data: Bytes): Promise<ArrayBuffer>
    /** Makes a key of its bytes. */
    importKey(
      format: 'raw',
      key: Bytes,
      algorithm: { readonly name: string; readonly hash?: string },
      extractable: boolean,
      usages: ('sign' | 'encrypt' | 'decrypt')[],
    ): Promise<WebCryptoKey>
    /** Computes the HMAC of the data, with the hash of the key. */
    sign(algorithm: 'HMAC', key: WebCryptoKey, data: Bytes): Promise<ArrayBuffer>
    /** Encrypts the data, with the tag at its end. */
    encrypt(algorithm: AesGcm, key: WebCryptoKey, data: Bytes): Promise<ArrayBuffer>
    /** Decrypts what `encrypt` made; rejects where the tag is wrong. */
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
  /** What the key is for: `secret`, of all that are made here. */
  readonly type: string
}

let provider: Promise<WebCrypto> | undefined

/**
 * Returns the default provider: @peculiar/webcrypto on Node, elsewhere the platform's. Loads it at
 * the first call.
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
