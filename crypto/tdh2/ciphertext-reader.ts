import { type Ciphertext, parseCiphertext } from './hybrid.js'
import { checkPublicKey, type PublicKey } from './key.js'

/** How many ciphertexts are remembered. */
const REMEMBERED = 100

/**
 * `parseCiphertext` for those who read the same ciphertexts again and again: the last hundred that verified are remembered
 * by their text, and so is what has been computed of them.
 */
export function createCiphertextReader(publicKey: PublicKey): (json: string) => Ciphertext {
  checkPublicKey(publicKey)
  const known = new Map<string, Ciphertext>()
  return function readCiphertext(json) {
    const ciphertext = known.get(json) ?? parseCiphertext(publicKey, json)
    known.delete(json)
    known.set(json, ciphertext)
    const [oldest] = known.keys()
    if (known.size > REMEMBERED && oldest !== undefined) known.delete(oldest)
    return ciphertext
  }
}
