/**
 * TDH2, threshold encryption: anybody encrypts with one public key, and it takes a threshold of holders of private shares
 * to decrypt. By Shoup and Gennaro, “Securing Threshold Cryptosystems against Chosen Ciphertext Attack”; over P-256, byte
 * for byte as the vault’s own implementation in Go.
 */
export { createCiphertextReader } from './ciphertext-reader.js'
export { type Dealing, type DealOptions, generateKeys, redeal } from './deal.js'
export type { Point } from './group.js'
export {
  type Ciphertext,
  type CombineOptions,
  combine,
  type EncryptOptions,
  encrypt,
  MAX_PLAINTEXT,
  parseCiphertext,
} from './hybrid.js'
export {
  formatMasterSecret,
  formatPrivateShare,
  formatPublicKey,
  type PrivateShare,
  type PublicKey,
  parseMasterSecret,
  parsePrivateShare,
  parsePublicKey,
} from './key.js'
export { ownerLabel } from './label.js'
export type { ScalarSource } from './scalar-source.js'
export { createShare, type DecryptionShare, parseDecryptionShare, verifyShare } from './share.js'
export type { WrappedKey } from './wrapped-key.js'
