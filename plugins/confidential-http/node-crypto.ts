import { webcrypto } from 'node:crypto'
import type { WebCrypto } from '../../crypto/crypto.js'

/** Node's own WebCrypto: the default one of this library leaves copies of keys and texts, which nobody can wipe. */
export const nodeCrypto: WebCrypto = webcrypto as unknown as WebCrypto
