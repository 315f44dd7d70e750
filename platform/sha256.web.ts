import type { Sha256 } from './sha256.js'

/** Undefined: the platform has WebCrypto alone. */
export const sha256: Sha256 | undefined = undefined
