import { formatKey, isPublicKey, parseKey } from 'sluice/internal'
import type { ConfidentialHTTPRequestMessage } from '../request/message.js'
import { Rejection } from './rejection.js'
import { parseObject, toJSON, VERSION } from './sealing.js'

/** A request with the facts that a caller seals with it. */
export interface Envelope {
  readonly id: string
  readonly issuedAt: number
  readonly replyTo: Uint8Array
  readonly request: unknown
}

/** An envelope of this caller. */
export interface NewEnvelope extends Envelope {
  /** The enclave's public key, pinned. */
  readonly enclave: Uint8Array
  readonly request: ConfidentialHTTPRequestMessage
}

/** Writes an envelope as JSON. */
export function writeEnvelope({ enclave, id, issuedAt, replyTo, request }: NewEnvelope): string {
  const { body, ...others } = request.request
  // JSON has no undefined: a request without a body has no field `body`.
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

/** Reads an envelope sealed for the enclave with this public key. Throws Rejection. */
export function readEnvelope(json: string, publicKey: string): Envelope {
  const envelope = parseObject(json)
  if (envelope === undefined) throw new Rejection(400, 'the request is not JSON')
  const { version, enclave, id, issuedAt, replyTo, request } = envelope
  if (version !== VERSION) throw new Rejection(400, `the request is not of version ${VERSION}`)
  if (enclave !== publicKey) throw new Rejection(400, 'the request is for another enclave')
  if (typeof id !== 'string' || !/^[0-9a-f]{32}$/.test(id))
    throw new Rejection(400, 'the id is not 32 hexadecimal digits')
  if (!Number.isSafeInteger(issuedAt)) throw new Rejection(400, 'issuedAt is not a time')
  if (typeof replyTo !== 'string' || !/^[0-9a-f]{64}$/.test(replyTo))
    throw new Rejection(400, 'replyTo is not a key')
  const replyKey = parseKey('replyTo', replyTo)
  if (!isPublicKey(replyKey)) throw new Rejection(400, 'replyTo is a point of low order')
  return { id, issuedAt: issuedAt as number, replyTo: replyKey, request }
}
