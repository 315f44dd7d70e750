import { checkOptions, isBytes } from '../../core/options.js'
import type { WebCrypto } from '../../crypto/crypto.js'
import { parseKey } from '../../crypto/hex-key.js'
import { openAesGcm } from '../../plugins/confidential-http/response-encryption/aes-gcm.js'
import { readBytes } from '../request/byte-fields.js'
import type { HTTPResponse, HTTPResponseJson } from '../types.js'
import { openResponse, readBody } from './normalize-response.js'

/** Options of `decryptResponse`. */
export interface DecryptResponseOptions {
  /** Decrypts. @default @peculiar/webcrypto */
  readonly crypto?: WebCrypto | undefined
}

/**
 * Decrypts a response, or its body as bytes or base64, that an enclave encrypted under the secret
 * `san_marino_aes_gcm_encryption_key`. The key is the secret's 64 hexadecimal digits or its 32 bytes. Rejects with EnclaveError,
 * code `ENCRYPTION`, for another key or changed bytes.
 */
export async function decryptResponse(
  response: Uint8Array | string | HTTPResponse | HTTPResponseJson,
  key: string | Uint8Array,
  options: DecryptResponseOptions = {},
): Promise<Uint8Array> {
  const { crypto } = checkOptions('decryptResponse', options, { crypto: true })
  const body =
    isBytes(response) || typeof response === 'string'
      ? readBytes({ path: 'body', value: response })
      : readBody(openResponse(response))
  return openAesGcm(isBytes(key) ? key : parseKey('key', key), body, crypto)
}
