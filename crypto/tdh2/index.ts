/**
 * TDH2, threshold encryption: one public key encrypts, and a threshold of holders of private shares
 * decrypts together. By Shoup and Gennaro, “Securing Threshold Cryptosystems against Chosen
 * Ciphertext Attack”; over P-256, byte for byte as the vault’s implementation in Go.
 */
export {
  addSubShares,
  checkFreshDealing,
  checkReshareDealing,
  checkSubShare,
  combineSubShares,
  dealFresh,
  type Dealing,
  type DealingCommitments,
  type DealOptions,
  dealReshare,
  formatDealing,
  freshKey,
  generateKeys,
  parseDealing,
  redeal,
  resharedKey,
  type ShareDealing,
} from './dealing.js'
export { TDH2Error } from './encoding.js'
export type { Point, ScalarSource } from './group.js'
export {
  type Ciphertext,
  combine,
  type CombineOptions,
  createCiphertextReader,
  encrypt,
  type EncryptOptions,
  MAX_PLAINTEXT,
  parseCiphertext,
} from './ciphertext.js'
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
export { createShare, type DecryptionShare, parseDecryptionShare, verifyShare } from './share.js'
export { ownerLabel, type WrappedKey } from './wrapped-key.js'
