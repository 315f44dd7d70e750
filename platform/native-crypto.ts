import { webcrypto } from 'node:crypto'

/** The platform's own WebCrypto: the default one of this library leaves copies of keys and texts, which nobody can wipe. */
export const nativeCrypto: unknown = webcrypto
