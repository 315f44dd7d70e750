import { webcrypto } from 'node:crypto'

/** The platform's own WebCrypto. Other implementations leave copies of keys and texts in memory. */
export const nativeCrypto: unknown = webcrypto
