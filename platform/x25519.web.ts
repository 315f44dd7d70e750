import type { X25519Key } from './x25519.js'

/** Undefined: WebCrypto is asynchronous. */
export function generateX25519(): { publicKey: Uint8Array; key: X25519Key } | undefined {
  return undefined
}

/** Undefined: WebCrypto is asynchronous. */
export function importX25519(_secretKey: Uint8Array): X25519Key | undefined {
  return undefined
}

/** Never called, because no such key exists. */
export function exportX25519(_key: X25519Key): Uint8Array {
  return new Uint8Array()
}

/** Undefined: WebCrypto is asynchronous. */
export function multiplyX25519(_key: X25519Key, _other: Uint8Array): Uint8Array | undefined {
  return undefined
}
