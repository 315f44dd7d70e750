/** Bytes that no other thread can change. (`Uint8Array<ArrayBuffer>`, which TypeScript has from 5.7 on.) */
export type Bytes = Uint8Array & { readonly buffer: ArrayBuffer }

/**
 * What this library needs of WebCrypto, so that `globalThis.crypto`, or any other provider, can take the place of the
 * default one.
 */
export interface WebCrypto {
  readonly subtle: {
    digest(algorithm: 'SHA-256', data: Bytes): Promise<ArrayBuffer>
    importKey(
      format: 'raw',
      key: Bytes,
      algorithm: { readonly name: string; readonly hash?: string },
      extractable: boolean,
      usages: ('sign' | 'encrypt' | 'decrypt')[],
    ): Promise<WebCryptoKey>
    sign(algorithm: 'HMAC', key: WebCryptoKey, data: Bytes): Promise<ArrayBuffer>
    encrypt(algorithm: AesGcm, key: WebCryptoKey, data: Bytes): Promise<ArrayBuffer>
    decrypt(algorithm: AesGcm, key: WebCryptoKey, data: Bytes): Promise<ArrayBuffer>
  }
  getRandomValues(array: Bytes): Bytes
}

/** AES-GCM with a 12-byte nonce, a 16-byte tag behind the ciphertext, and no associated data. */
export interface AesGcm {
  readonly name: 'AES-GCM'
  readonly iv: Bytes
}

/** A key as its provider knows it. */
export interface WebCryptoKey {
  readonly type: string
}

let provider: Promise<WebCrypto> | undefined

/** The default provider, @peculiar/webcrypto, loaded when it is first needed. */
export function defaultCrypto(): Promise<WebCrypto> {
  // Held at 1.7.0: what later releases give to `import`, early releases of Node 20 and 22 take for CommonJS.
  provider ??= import('@peculiar/webcrypto').then(
    ({ Crypto }) => new Crypto() as unknown as WebCrypto,
  )
  return provider
}
