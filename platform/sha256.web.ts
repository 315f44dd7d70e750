import type { Sha256 } from './sha256.js'

/** Undefined, because the platform has only WebCrypto. */
export const sha256: Sha256 | undefined = undefined
