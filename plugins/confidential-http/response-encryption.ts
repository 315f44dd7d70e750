import { ValidationError } from '../../core/errors.js'
import { readOptions, unchecked } from '../../core/options.js'
import { parseKey } from '../../crypto/bytes.js'
import {
  type AesGcm,
  type Bytes,
  defaultCrypto,
  type WebCrypto,
  type WebCryptoKey,
} from '../../crypto/crypto.js'
import { encrypt, MAX_PLAINTEXT, type PublicKey } from '../../crypto/tdh2/index.js'
import { nativeCrypto } from '../../platform/native-crypto.js'
import type { EnclavePlugin } from './call.js'
import { EnclaveError } from './errors.js'

const nodeCrypto = nativeCrypto as WebCrypto

/**
 * The name of the secret that contains the caller's AES key, as 64 hexadecimal digits. This secret
 * fills no placeholder.
 */
export const AES_KEY_SECRET = 'san_marino_aes_gcm_encryption_key'

/** Options of `responseEncryption`. */
export interface ResponseEncryptionOptions {
  /** The vault's master public key. It encrypts the answers to requests that list no AES key. */
  readonly publicKey: PublicKey
}

/**
 * Encrypts the body of the answer if the request asks for it (`encryptOutput`). If the request
 * lists the secret `san_marino_aes_gcm_encryption_key`, this is AES-256-GCM under that secret.
 * Otherwise it is TDH2 under the vault's master public key. Status and headers stay readable. The
 * plain body is wiped. A body encrypted with AES is bound to its status and request if the request
 * asks for it (`outputLayout`). TDH2 encrypts bodies of at most 768000 bytes.
 */
export function responseEncryption(options: ResponseEncryptionOptions): EnclavePlugin {
  const { publicKey } = readOptions('responseEncryption', options, {
    publicKey: unchecked<PublicKey>,
  })
  return {
    name: 'response-encryption',
    call: next =>
      async function encryptAnswer(call) {
        const { boundTo: requestId, operation, scope } = call
        const digits = call.released.get(AES_KEY_SECRET)
        const released = new Map(call.released)
        released.delete(AES_KEY_SECRET)
        if (!call.encryptOutput) {
          if (digits !== undefined)
            scope.log.warn?.(
              `${operation}: ${AES_KEY_SECRET} is listed, but encryptOutput is not true: the answer is not encrypted`,
            )
          return next({ ...call, released })
        }
        const key = digits === undefined ? undefined : parseKey(`secret ${AES_KEY_SECRET}`, digits)
        if (requestId !== undefined && key === undefined)
          throw new EnclaveError(
            `the layout ${BOUND_LAYOUT} must have a key: list ${AES_KEY_SECRET} in vaultDonSecrets`,
            { code: 'ENCRYPTION' },
          )
        const { maxResponseBytes = MAX_PLAINTEXT } = call.connection
        const connection = {
          ...call.connection,
          ...(key === undefined && { maxResponseBytes: Math.min(maxResponseBytes, MAX_PLAINTEXT) }),
        }
        try {
          const reply = await next({ ...call, connection, released, encryptOutput: false })
          const { body, status } = reply
          const binding = requestId === undefined ? undefined : { requestId, status }
          const encrypted =
            key === undefined
              ? encrypt(publicKey, body, { crypto: nodeCrypto }).then(utf8)
              : sealBody(key, body, { binding, crypto: nodeCrypto })
          return { ...reply, body: await encrypted.finally(() => body.fill(0)) }
        } finally {
          key?.fill(0)
        }
      },
  }
}

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

/*
 * A body in the layout of the reference, encrypted with AES-256-GCM under a fresh random nonce:
 *
 *     12 bytes   nonce
 *     n bytes    ciphertext, as long as the body
 *     16 bytes   tag
 *
 * The layout `bound-v1` has 8 more bytes at the beginning: the letters SLBOUND and the version, 1.
 * Its associated data are not sent, so the recipient must already know them:
 *
 *     8 bytes    as above
 *     4 bytes    the HTTP status, the highest byte first
 *     n bytes    the id of the request, in UTF-8
 *
 * So a bound body opens only as the answer to its own request and with its own status. The two
 * layouts are not interchangeable, because the layout of the reference has no associated data.
 */

/** The name of the layout whose bodies are bound to a status and a request. */
export const BOUND_LAYOUT = 'bound-v1'

const HEAD: Bytes = Uint8Array.from([...new TextEncoder().encode('SLBOUND'), 1])

/** Options for encrypting or decrypting a body. */
export interface BodyOptions {
  /**
   * The request and the status that the body is bound to. If given, the layout is `bound-v1`.
   * @default nothing: the layout is the reference's
   */
  readonly binding?: { readonly requestId: string; readonly status: number } | undefined
  /** The provider that encrypts or decrypts. @default @peculiar/webcrypto */
  readonly crypto?: WebCrypto | undefined
}

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Encrypts the body of an answer under an AES key. */
export async function sealBody(
  key: Uint8Array,
  body: Uint8Array,
  { binding, crypto }: BodyOptions = {},
): Promise<Uint8Array> {
  const provider = crypto ?? (await defaultCrypto())
  const nonce = provider.getRandomValues(new Uint8Array(NONCE_BYTES))
  const aes = await importKey(provider, key, 'encrypt')
  const copy = new Uint8Array(body)
  const sealed = await provider.subtle
    .encrypt(algorithmOf(nonce, binding), aes, copy)
    .finally(() => copy.fill(0))
  const parts = [nonce, new Uint8Array(sealed)]
  return concat(...(binding === undefined ? parts : [HEAD, ...parts]))
}

/**
 * Decrypts the bytes that `sealBody` returns. Throws EnclaveError with the code `ENCRYPTION` if the
 * key, the binding or the layout is a different one.
 */
export async function openBody(
  key: Uint8Array,
  sealed: Uint8Array,
  { binding, crypto }: BodyOptions = {},
): Promise<Uint8Array> {
  const provider = crypto ?? (await defaultCrypto())
  if (binding !== undefined && !HEAD.every((byte, index) => byte === sealed[index]))
    throw notOpened(
      `the body is not in the layout ${BOUND_LAYOUT}: it may be the answer to another request`,
    )
  const blob = new Uint8Array(sealed.subarray(binding === undefined ? 0 : HEAD.byteLength))
  if (blob.byteLength < NONCE_BYTES + TAG_BYTES)
    throw notOpened(
      `encrypted bytes must be at least ${NONCE_BYTES + TAG_BYTES}, nonce and tag, not ${blob.byteLength}`,
    )
  const algorithm = algorithmOf(blob.slice(0, NONCE_BYTES), binding)
  const aes = await importKey(provider, key, 'decrypt')
  try {
    return new Uint8Array(await provider.subtle.decrypt(algorithm, aes, blob.slice(NONCE_BYTES)))
  } catch {
    const what = binding === undefined ? 'the key' : 'the key, the status or the id of the request'
    throw notOpened(`encrypted bytes do not open: ${what} is another, or they were changed`)
  }
}

function importKey(
  { subtle }: WebCrypto,
  key: Uint8Array,
  usage: 'encrypt' | 'decrypt',
): Promise<WebCryptoKey> {
  if (key.byteLength !== 32)
    throw new ValidationError(`key must be 32 bytes, not ${key.byteLength}`)
  const copy = new Uint8Array(key)
  return subtle
    .importKey('raw', copy, { name: 'AES-GCM' }, false, [usage])
    .finally(() => copy.fill(0))
}

function algorithmOf(iv: Bytes, binding: BodyOptions['binding']): AesGcm {
  if (binding === undefined) return { name: 'AES-GCM', iv }
  const status = new Uint8Array(4)
  new DataView(status.buffer).setUint32(0, binding.status)
  const additionalData = concat(HEAD, status, new TextEncoder().encode(binding.requestId))
  return { name: 'AES-GCM', iv, additionalData }
}

function concat(...parts: readonly Uint8Array[]): Bytes {
  return new Uint8Array(Buffer.concat(parts))
}

function notOpened(message: string): EnclaveError {
  return new EnclaveError(message, { code: 'ENCRYPTION' })
}
