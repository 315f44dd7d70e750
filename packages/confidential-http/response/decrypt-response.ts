import type { WebCrypto } from 'sluice/client'
import { checkNumber, checkOptions, type OptionNames, ValidationError } from 'sluice/core'
import { BOUND_LAYOUT, isBytes, openBody, parseKey } from 'sluice/internal'
import { readBytes } from '../request/fields.js'
import { checkRequestId, REFERENCE_LAYOUT } from '../request/normalize-request.js'
import type { HTTPResponseJson, HTTPResponseLike } from '../types.js'
import { openResponse, readBody, readStatus } from './response.js'

/** Options of `decryptResponse`. */
export interface DecryptResponseOptions {
  /**
   * The layout that the request asked for. A body in another layout does not open. With `bound-v1`,
   * a body opens only as the answer to `requestId` with this status. @default 'reference'
   */
  readonly layout?: 'reference' | 'bound-v1' | undefined
  /** The id of the request. Required if the layout is `bound-v1`. */
  readonly requestId?: string | undefined
  /** The status of the response. Required for `bound-v1` if only the body is given. */
  readonly statusCode?: number | undefined
  /** The provider that decrypts. @default @peculiar/webcrypto */
  readonly crypto?: WebCrypto | undefined
}

const names: OptionNames<DecryptResponseOptions> = {
  layout: true,
  requestId: true,
  statusCode: true,
  crypto: true,
}

/**
 * Decrypts the body of a response that an enclave encrypted under the secret
 * `san_marino_aes_gcm_encryption_key`. Takes the whole response, or only its body as bytes or
 * base64. The key is the secret's 64 hexadecimal digits or its 32 bytes. Rejects with an
 * EnclaveError with the code `ENCRYPTION` if the key or the layout is a different one, or if the
 * bytes were changed.
 */
export async function decryptResponse(
  response: Uint8Array | string | HTTPResponseLike | HTTPResponseJson,
  key: string | Uint8Array,
  options: DecryptResponseOptions = {},
): Promise<Uint8Array> {
  const given = checkOptions('decryptResponse', options, names)
  const { layout = REFERENCE_LAYOUT, requestId, statusCode, crypto } = given
  if (layout !== REFERENCE_LAYOUT && layout !== BOUND_LAYOUT)
    throw new ValidationError(`layout must be '${REFERENCE_LAYOUT}' or '${BOUND_LAYOUT}'`)
  if (layout === REFERENCE_LAYOUT && (requestId ?? statusCode) !== undefined)
    throw new ValidationError(
      `requestId and statusCode must not be given unless layout is '${BOUND_LAYOUT}'`,
    )
  const isBody = isBytes(response) || typeof response === 'string'
  const field = isBody ? undefined : openResponse(response)
  const body = field === undefined ? readBytes({ path: 'body', value: response }) : readBody(field)
  const bytes = isBytes(key) ? key : parseKey('key', key)
  if (layout === REFERENCE_LAYOUT) return openBody(bytes, body, { crypto })
  const id = checkRequestId('requestId', requestId)
  if (field !== undefined && statusCode !== undefined)
    throw new ValidationError('statusCode must not be given: the response has it')
  const status = field === undefined ? checkStatus(statusCode) : readStatus(field)
  return openBody(bytes, body, { binding: { requestId: id, status }, crypto })
}

function checkStatus(status: number | undefined): number {
  if (status === undefined)
    throw new ValidationError('statusCode is required where only the body is given')
  return checkNumber('statusCode', status, { min: 0, max: 4_294_967_295, whole: true })
}
