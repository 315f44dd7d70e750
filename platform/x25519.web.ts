import type { X25519Key } from './x25519.js'

/** Returns undefined, because WebCrypto is asynchronous. */
export function generateX25519(): { publicKey: Uint8Array; key: X25519Key } | undefined {
  return undefined
}

/** Returns undefined, because WebCrypto is asynchronous. */
export function importX25519(_secretKey: Uint8Array): X25519Key | undefined {
  return undefined
}

/** Never called, because no such key can be made here. */
export function exportX25519(_key: X25519Key): Uint8Array {
  return new Uint8Array()
}

/** Returns undefined, because WebCrypto is asynchronous. */
export function multiplyX25519(_key: X25519Key, _other: Uint8Array): Uint8Array | undefined {
  return undefined
}
