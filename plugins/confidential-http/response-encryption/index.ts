import { checkOptions } from '../../../core/options.js'
import type { WebCrypto } from '../../../crypto/crypto.js'
import { parseKey } from '../../../crypto/hex-key.js'
import { encrypt, MAX_PLAINTEXT, type PublicKey } from '../../../crypto/tdh2/index.js'
import { nativeCrypto } from '../../../platform/native-crypto.js'
import type { ConfidentialReply, EnclavePlugin } from '../call.js'
import { EnclaveError } from '../errors.js'
import { sealAesGcm } from './aes-gcm.js'
import { BOUND_LAYOUT, sealBound } from './bound-layout.js'

const nodeCrypto = nativeCrypto as WebCrypto

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
 * and headers stay readable, and the body that the API sent is wiped; the key's body is bound to status and request if the request says so (`outputLayout`). TDH2 encrypts answers of at most 768000 bytes.
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
        const { boundTo: requestId } = call
        if (requestId !== undefined && key === undefined)
          throw new EnclaveError(
            `the layout ${BOUND_LAYOUT} must have a key: list ${AES_KEY_SECRET} in vaultDonSecrets`,
            { code: 'ENCRYPTION' },
          )
        async function encryptBody(
          { body, status }: ConfidentialReply,
          aesKey: Uint8Array | undefined,
        ): Promise<Uint8Array> {
          try {
            if (aesKey === undefined)
              return new TextEncoder().encode(
                await encrypt(publicKey, body, { crypto: nodeCrypto }),
              )
            return requestId === undefined
              ? await sealAesGcm(aesKey, body, nodeCrypto)
              : await sealBound(aesKey, body, { requestId, status }, nodeCrypto)
          } finally {
            body.fill(0)
          }
        }
        const { maxResponseBytes = MAX_PLAINTEXT } = call.connection
        const connection = {
          ...call.connection,
          ...(key === undefined && { maxResponseBytes: Math.min(maxResponseBytes, MAX_PLAINTEXT) }),
        }
        try {
          const reply = await next({ ...call, connection, released, encryptOutput: false })
          return { ...reply, body: await encryptBody(reply, key) }
        } finally {
          key?.fill(0)
        }
      },
  }
}
