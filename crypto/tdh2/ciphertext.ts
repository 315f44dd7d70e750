import { BoundedMap } from '../../core/bounded-map.js'
import { foreignCause, ValidationError } from '../../core/errors.js'
import { readOptions, type Schema, unchecked } from '../../core/options.js'
import { TextDecoder, TextEncoder } from '../../platform/globals.js'
import { checkBytes, encodeBase64, isBytes } from '../bytes.js'
import { type Bytes, defaultCrypto, type WebCrypto } from '../crypto.js'
import { FieldReader, rejection, TDH2Error } from './encoding.js'
import { checkedSource, type ScalarSource } from './group.js'
import { checkPublicKey, checkThreshold, type PublicKey } from './key.js'
import { checkDecryptionShare, type DecryptionShare, interpolate } from './share.js'
import {
  checkWrappedKey,
  LABEL_BYTES,
  parseWrappedKey,
  unwrapKey,
  type WrappedKey,
  wrapKey,
} from './wrapped-key.js'

/** Options of `encrypt`. */
export interface EncryptOptions {
  /** 32 public bytes. The proof of the ciphertext binds them to it. @default zeros */
  readonly label?: Uint8Array
  /**
   * The provider that encrypts. It also draws the random key, then the nonce. @default
   * @peculiar/webcrypto
   */
  readonly crypto?: WebCrypto
  /** The source of the two secret scalars of the encryption. @default the platform’s generator */
  readonly randomScalar?: ScalarSource
}

const encryptRules = {
  label: (field, given) =>
    checkBytes(field, given === undefined ? new Uint8Array(LABEL_BYTES) : given, LABEL_BYTES),
  crypto: unchecked<WebCrypto | undefined>,
  randomScalar: checkedSource,
} satisfies Schema<EncryptOptions>

/** Options of `combine`. */
export interface CombineOptions {
  /** The number of shares needed to decrypt. No key or ciphertext contains it. */
  readonly threshold: number
  /** The provider that decrypts. @default @peculiar/webcrypto */
  readonly crypto?: WebCrypto
}

const combineRules = {
  threshold: checkThreshold,
  crypto: unchecked<WebCrypto | undefined>,
} satisfies Schema<CombineOptions>

/**
 * A verified ciphertext. It has a message encrypted with AES-256-GCM, and the AES key encrypted
 * with TDH2.
 */
export interface Ciphertext extends WrappedKey {
  /** The encrypted message and its tag of 16 bytes. */
  readonly message: Bytes
  /** The nonce of AES-GCM, 12 bytes. */
  readonly nonce: Bytes
}

const NAME = 'ciphertext'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** The longest message that `encrypt` accepts, in bytes. */
export const MAX_PLAINTEXT = 768_000

/**
 * Encrypts a message of at most 768000 bytes. Returns the JSON text with TDH2Ctxt, SymCtxt and
 * Nonce, byte for byte as the reference implementation does.
 */
export async function encrypt(
  publicKey: PublicKey,
  plaintext: Uint8Array,
  options?: EncryptOptions,
): Promise<string> {
  const { label, crypto, randomScalar: draw } = readOptions('encrypt', options, encryptRules)
  checkPublicKey(publicKey)
  if (!isBytes(plaintext) || plaintext.byteLength > MAX_PLAINTEXT)
    throw new ValidationError(`plaintext must be a Uint8Array of at most ${MAX_PLAINTEXT} bytes`)
  const provider = crypto ?? (await defaultCrypto())
  const key = provider.getRandomValues(new Uint8Array(KEY_BYTES))
  const nonce = provider.getRandomValues(new Uint8Array(NONCE_BYTES))
  const wrapped = wrapKey(publicKey, key, label, draw)
  const aes = await provider.subtle.importKey('raw', key, { name: 'AES-GCM' }, false, ['encrypt'])
  key.fill(0)
  const copy = new Uint8Array(plaintext)
  const message = await provider.subtle
    .encrypt({ name: 'AES-GCM', iv: nonce }, aes, copy)
    .finally(() => copy.fill(0))
  return JSON.stringify({
    TDH2Ctxt: encodeBase64(new TextEncoder().encode(wrapped)),
    SymCtxt: encodeBase64(new Uint8Array(message)),
    Nonce: encodeBase64(nonce),
  })
}

/**
 * Reads a ciphertext and verifies its proof, which binds the encrypted AES key to the label. The
 * caller must compare the label. The message itself is authenticated only when it is decrypted.
 * Throws TDH2Error.
 */
export function parseCiphertext(publicKey: PublicKey, json: string): Ciphertext {
  checkPublicKey(publicKey)
  const fields = new FieldReader(NAME, json)
  const wrapped = fields.bytes('TDH2Ctxt')
  const message = new Uint8Array(fields.bytes('SymCtxt'))
  const nonce = new Uint8Array(fields.bytes('Nonce'))
  if (nonce.byteLength !== NONCE_BYTES) throw rejection(NAME, 'Nonce: nonce must have 12B')
  if (message.byteLength < TAG_BYTES)
    throw rejection(NAME, `SymCtxt is shorter than its tag of ${TAG_BYTES} bytes`)
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(wrapped)
  return { ...parseWrappedKey(publicKey, text), message, nonce }
}

/**
 * Decrypts with the `threshold` shares that have the lowest indexes. Does not verify the shares: if
 * one is bad, decryption fails, and the error does not name the bad share. Throws TDH2Error.
 */
export async function combine(
  ciphertext: Ciphertext,
  shares: readonly DecryptionShare[],
  options: CombineOptions,
): Promise<Uint8Array> {
  const { threshold, crypto } = readOptions('combine', options, combineRules)
  checkWrappedKey(ciphertext)
  checkBytes('ciphertext.message', ciphertext.message)
  checkBytes('ciphertext.nonce', ciphertext.nonce, NONCE_BYTES)
  if (!Array.isArray(shares)) throw new ValidationError('shares must be an array')
  const point = interpolate(
    Array.from(shares, (share, at) => checkDecryptionShare(`shares[${at}]`, share)),
    threshold,
  )
  const { subtle } = crypto ?? (await defaultCrypto())
  const key = unwrapKey(ciphertext, point)
  const aes = await subtle.importKey('raw', key, { name: 'AES-GCM' }, false, ['decrypt'])
  key.fill(0)
  const { nonce: iv, message } = ciphertext
  try {
    return new Uint8Array(await subtle.decrypt({ name: 'AES-GCM', iv }, aes, message))
  } catch (thrown) {
    throw new TDH2Error(
      'the ciphertext is rejected: SymCtxt: message authentication failed, as it was changed or a share is wrong',
      { cause: foreignCause(thrown) },
    )
  }
}

/** How many verified ciphertexts a reader caches. */
const CACHED = 100

/**
 * Makes a `parseCiphertext` that caches the last hundred verified ciphertexts by their text. A
 * changed text is not in the cache, so it is verified again. So an attacker who can change the
 * stored texts gains nothing from the cache.
 */
export function createCiphertextReader(publicKey: PublicKey): (json: string) => Ciphertext {
  checkPublicKey(publicKey)
  const cache = new BoundedMap<string, Ciphertext>(CACHED)
  return function readCiphertext(json) {
    const ciphertext = cache.get(json) ?? parseCiphertext(publicKey, json)
    cache.set(json, ciphertext)
    return ciphertext
  }
}
