import { formatKey, parseKey } from '../../crypto/hex-key.js'
import { isPublicKey } from '../../crypto/sealed-box.js'
import type { ConfidentialHTTPRequestMessage } from '../request/normalize-request.js'
import { Refusal } from './refusal.js'
import { toJSON, VERSION } from './sealing.js'

/** What a caller seals around a request. */
export interface Envelope {
  readonly id: string
  readonly issuedAt: number
  readonly replyTo: Uint8Array
  readonly request: unknown
}

/** An envelope as the caller makes it. */
export interface NewEnvelope extends Envelope {
  /** The enclave's public key, pinned. */
  readonly enclave: Uint8Array
  readonly request: ConfidentialHTTPRequestMessage
}

/** The JSON of an envelope. */
export function writeEnvelope({ enclave, id, issuedAt, replyTo, request }: NewEnvelope): string {
  const { body, ...others } = request.request
  // JSON can't say that a case is undefined.
  const inner = { ...others, ...(body.case === undefined ? {} : { body }) }
  return toJSON({
    version: VERSION,
    enclave: formatKey(enclave),
    id,
    issuedAt,
    replyTo: formatKey(replyTo),
    request: { ...request, request: inner },
  })
}

/** Reads what a caller has sealed for the enclave with this public key. Throws Refusal. */
export function readEnvelope(json: string, publicKey: string): Envelope {
  let envelope: Readonly<Record<string, unknown>>
  try {
    envelope = JSON.parse(json) ?? {}
  } catch {
    throw new Refusal(400, 'the request is not JSON')
  }
  const { version, enclave, id, issuedAt, replyTo, request } = envelope
  if (version !== VERSION) throw new Refusal(400, `the request is not of version ${VERSION}`)
  if (enclave !== publicKey) throw new Refusal(400, 'the request is for another enclave')
  if (typeof id !== 'string' || !/^[0-9a-f]{32}$/.test(id))
    throw new Refusal(400, 'the id is not 32 hexadecimal digits')
  if (!Number.isSafeInteger(issuedAt)) throw new Refusal(400, 'issuedAt is not a time')
  if (typeof replyTo !== 'string' || !/^[0-9a-f]{64}$/.test(replyTo))
    throw new Refusal(400, 'replyTo is not a key')
  const replyKey = parseKey('replyTo', replyTo)
  if (!isPublicKey(replyKey)) throw new Refusal(400, 'replyTo is a point of low order')
  return { id, issuedAt: issuedAt as number, replyTo: replyKey, request }
}
