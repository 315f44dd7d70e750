/**
 * TDH2, threshold encryption: one public key encrypts, and a threshold of holders of private shares decrypts together. By
 * Shoup and Gennaro, “Securing Threshold Cryptosystems against Chosen Ciphertext Attack”; over P-256, byte
 * for byte as the vault’s implementation in Go.
 */
export { type Dealing, type DealOptions, generateKeys, redeal } from './deal.js'
export { TDH2Error } from './errors.js'
export type { Point, ScalarSource } from './group.js'
export {
  type Ciphertext,
  type CombineOptions,
  combine,
  createCiphertextReader,
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
export {
  addSubShares,
  checkFreshDealing,
  checkReshareDealing,
  checkSubShare,
  combineSubShares,
  type DealingCommitments,
  dealFresh,
  dealReshare,
  formatDealing,
  freshKey,
  parseDealing,
  resharedKey,
  type ShareDealing,
} from './reshare.js'
export { createShare, type DecryptionShare, parseDecryptionShare, verifyShare } from './share.js'
export { ownerLabel, type WrappedKey } from './wrapped-key.js'
