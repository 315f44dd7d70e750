// A file that is loaded when it is needed, and imports by name, so that bundlers leave out what else the package has.
import { keccak_256 } from '@noble/hashes/sha3'

/** The hash function of Ethereum. */
export const keccak: typeof keccak_256 = keccak_256
