import { checkOptions } from '../../core/options.js'
import { parseKey } from '../../crypto/hex-key.js'
import { encrypt, MAX_PLAINTEXT, type PublicKey } from '../../crypto/tdh2/index.js'
import type { EnclavePlugin } from './call.js'
import { sealAesGcm } from './response-encryption/aes-gcm.js'

/** The secret that holds the caller's AES key, as 64 hexadecimal digits. It fills no placeholder. */
export const AES_KEY_SECRET = 'san_marino_aes_gcm_encryption_key'

/** Options of `responseEncryption`. */
export interface ResponseEncryptionOptions {
  /** The vault's master public key, for answers to requests that list no AES key. */
  readonly publicKey: PublicKey
}

/**
 * Encrypts the body of the answer if the request asks for it (`encryptOutput`): with AES-256-GCM under the secret
 * `san_marino_aes_gcm_encryption_key` if the request lists it, else with TDH2 under the vault's master public key. Status
 * and headers stay readable. TDH2 encrypts answers of at most 768000 bytes.
 */
export function responseEncryption(options: ResponseEncryptionOptions): EnclavePlugin {
  const { publicKey } = checkOptions('responseEncryption', options, { publicKey: true })
  return {
    name: 'response-encryption',
    call: next =>
      async function encryptAnswer(call) {
        const digits = call.released.get(AES_KEY_SECRET)
        const released = new Map(call.released)
        released.delete(AES_KEY_SECRET)
        if (!call.encryptOutput) {
          if (digits !== undefined)
            call.scope.log.warn?.(
              `${call.operation}: ${AES_KEY_SECRET} is listed, but encryptOutput is not true: the answer is not encrypted`,
            )
          return next({ ...call, released })
        }
        const key = digits === undefined ? undefined : parseKey(`secret ${AES_KEY_SECRET}`, digits)
        const { maxResponseBytes = MAX_PLAINTEXT } = call.connection
        const connection = {
          ...call.connection,
          ...(key === undefined && { maxResponseBytes: Math.min(maxResponseBytes, MAX_PLAINTEXT) }),
        }
        try {
          const reply = await next({ ...call, connection, released, encryptOutput: false })
          const body =
            key === undefined
              ? new TextEncoder().encode(await encrypt(publicKey, reply.body))
              : await sealAesGcm(key, reply.body)
          return { ...reply, body }
        } finally {
          key?.fill(0)
        }
      },
  }
}
