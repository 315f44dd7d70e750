/** The platform's own WebCrypto. */
export const nativeCrypto: unknown = globalThis.crypto
