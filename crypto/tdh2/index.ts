/**
 * TDH2 is a threshold encryption scheme. One public key encrypts. A threshold of holders of private
 * shares must work together to decrypt. The scheme is from Shoup and Gennaro, “Securing Threshold
 * Cryptosystems against Chosen Ciphertext Attack”, over P-256. Its JSON texts are byte for byte
 * those of the reference implementation, the vault’s in Go.
 */

export {
  type Ciphertext,
  type CombineOptions,
  combine,
  createCiphertextReader,
  type EncryptOptions,
  encrypt,
  MAX_PLAINTEXT,
  parseCiphertext,
} from './ciphertext.js'
export {
  addSubShares,
  checkFreshDealing,
  checkReshareDealing,
  checkSubShare,
  combineSubShares,
  type Dealing,
  type DealingCommitments,
  type DealOptions,
  dealFresh,
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
