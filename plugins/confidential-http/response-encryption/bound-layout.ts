import type { Bytes, WebCrypto } from '../../../crypto/crypto.js'
import { EnclaveError } from '../errors.js'
import { openAesGcm, sealAesGcm } from './aes-gcm.js'

/*
 * The layout `bound-v1` of an encrypted body:
 *
 *     8 bytes    the letters SLBOUND and the version, 1
 *     12 bytes   nonce
 *     n bytes    ciphertext of AES-256-GCM
 *     16 bytes   tag
 *
 * Its associated data are not in it: who opens it has to know them.
 *
 *     8 bytes    as above
 *     4 bytes    the HTTP status, the highest byte first
 *     n bytes    the id of the request, in UTF-8
 *
 * So it opens only as the answer to that request and with that status, and not as a body in the reference's layout, which has
 * no associated data; nor does one in that layout open as this.
 */

/** What a body is bound to. */
export interface Binding {
  readonly requestId: string
  readonly status: number
}

/** The name of the layout. */
export const BOUND_LAYOUT = 'bound-v1'

const HEAD: Uint8Array = Uint8Array.from([...new TextEncoder().encode('SLBOUND'), 1])

/** Encrypts a body that opens only with its binding. */
export async function sealBound(
  key: Uint8Array,
  body: Uint8Array,
  binding: Binding,
  crypto?: WebCrypto,
): Promise<Uint8Array> {
  return join(HEAD, await sealAesGcm(key, body, crypto, associatedData(binding)))
}

/** Decrypts what `sealBound` returns. Throws EnclaveError, code `ENCRYPTION`, for another key, binding or layout. */
export async function openBound(
  key: Uint8Array,
  blob: Uint8Array,
  binding: Binding,
  crypto?: WebCrypto,
): Promise<Uint8Array> {
  if (!isBound(blob))
    throw new EnclaveError(
      `the body is not in the layout ${BOUND_LAYOUT}: it may be the answer to another request`,
      { code: 'ENCRYPTION' },
    )
  return openAesGcm(key, blob.subarray(HEAD.byteLength), crypto, associatedData(binding))
}

/** Whether a body claims to be in this layout. */
export function isBound(blob: Uint8Array): boolean {
  return HEAD.every((byte, index) => byte === blob[index])
}

function associatedData({ requestId, status }: Binding): Bytes {
  const number = new Uint8Array(4)
  new DataView(number.buffer).setUint32(0, status)
  return join(HEAD, number, new TextEncoder().encode(requestId))
}

function join(...parts: readonly Uint8Array[]): Bytes {
  const all = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.byteLength
  }
  return all
}
