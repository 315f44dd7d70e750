/**
 * What this library needs of WebCrypto, so that `globalThis.crypto`, or any other provider, can take the place of the
 * default one.
 */
export interface WebCrypto {
  readonly subtle: {
    digest(algorithm: 'SHA-256', data: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer>
    importKey(
      format: 'raw',
      key: Uint8Array<ArrayBuffer>,
      algorithm: { readonly name: string; readonly hash?: string },
      extractable: boolean,
      usages: 'sign'[],
    ): Promise<WebCryptoKey>
    sign(algorithm: 'HMAC', key: WebCryptoKey, data: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer>
  }
}

/** A key as its provider knows it. */
export interface WebCryptoKey {
  readonly type: string
}

let provider: Promise<WebCrypto> | undefined

/** The default provider, @peculiar/webcrypto, loaded when it is first needed. */
export function defaultCrypto(): Promise<WebCrypto> {
  provider ??= import('@peculiar/webcrypto').then(
    ({ Crypto }) => new Crypto() as unknown as WebCrypto,
  )
  return provider
}
