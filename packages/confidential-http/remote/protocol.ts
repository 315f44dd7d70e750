import type { ServerResponse } from 'node:http'
import { type BoxKeys, formatKey, type HttpAnswer, isPublicKey, parseKey } from 'sluice/internal'
import type { ConfidentialHTTPRequestMessage } from '../request/message.js'
import {
  boxJSON,
  isSealedTo,
  openJSON,
  openRequestJSON,
  parseObject,
  sealRequestJSON,
  toJSON,
} from '../sealed-message.js'

/*
 * The protocol between a caller and a remote enclave. All keys are X25519, all boxes are NaCl's. An
 * enclave has two key pairs: the enclave key, whose public key callers pin, and a boot key, made at
 * each start and never stored.
 *
 *   POST /v2/boot-key   asker (32 bytes): the public key of a pair that the caller made for this
 *                       question
 *     answer            box from the enclave key to asker of:
 *                         'K' ‖ JSON { version, bootKey, upFor, evidence? }
 *   POST /v2/requests   boot key (32 bytes) ‖ sealed box to the boot key of:
 *                         the caller's public key (32 bytes) ‖
 *                         box from the caller to the boot key of:
 *                           'Q' ‖ JSON { version, enclave, id, issuedAt, replyTo, request }
 *     answer            box from the boot key to replyTo of:
 *                         'A' ‖ JSON { id, response } or { id, failure }
 *
 * Keys and ids are hexadecimal digits in JSON. `issuedAt` is milliseconds of Unix time. `upFor` is
 * the milliseconds since the enclave's start, by a clock that never goes back. `replyTo` is the
 * public key of a pair made for this one request.
 *
 * Security properties:
 * - Only the holder of the enclave key can answer a request to name the boot key. An answer opens
 *   only for its own question, so nobody can open a replayed answer. The enclave key authenticates
 *   boot keys and nothing else.
 * - Evidence, { format, bytes in base64 }, contains a hash of the enclave key, the boot key and the
 *   asker (attestation/evidence.ts). So earlier evidence, or evidence of another enclave, is not
 *   valid for this question.
 * - Only one run of one enclave can open a request, because each run has its own boot key. After a
 *   restart nobody can open a recorded request, even with all other keys. Another enclave with the
 *   same enclave key can't open it either. So a replay can only reach the run that the request was
 *   made for, and that run remembers the request's id (`ReplayGuard`).
 * - `enclave` names the key that the caller has pinned. Otherwise an enclave could present another
 *   enclave's boot key as its own, and forward the requests that it receives to that enclave.
 * - The sealed box hides the caller, and the box inside authenticates the caller. The first letter
 *   distinguishes the kinds of boxes, because two parties share one key for both directions.
 * - Anybody can forge an unsealed rejection. Such a rejection never makes a caller believe that
 *   nothing was carried out. A caller acts only upon 410: see boot-keys.ts.
 */

/** The version of the protocol. */
export const VERSION = 2

/** The path for questions for the boot key. */
export const BOOT_KEY_PATH = '/v2/boot-key'

/** The path for requests. */
export const REQUEST_PATH = '/v2/requests'

/** The longest request that a caller sends. An enclave may have a lower limit. */
export const MAX_SEALED_BYTES = 4_194_304

/** The length of a key, in bytes. */
export const KEY_BYTES = 32

/** The length of a request with empty JSON: three keys, a nonce, two tags and a letter. */
export const MIN_SEALED_BYTES: number = 3 * KEY_BYTES + 24 + 2 * 16 + 1

// The kinds of boxes: the answer with a boot key (K), a request (Q), and the answer to a request
// (A).

/** Seals a boot key's JSON to the asker. */
export function sealBootKey(json: string, asker: Uint8Array, enclave: BoxKeys): Uint8Array {
  return boxJSON('K', json, asker, enclave)
}

/**
 * Opens a boot key's JSON. Returns undefined if the answer is not from this enclave key to this
 * asker.
 */
export function openBootKey(
  answer: Uint8Array,
  enclave: Uint8Array,
  asker: BoxKeys,
): string | undefined {
  return openJSON('K', answer, enclave, asker)
}

/** Seals a request's JSON. */
export function sealRequest(json: string, bootKey: Uint8Array, caller: BoxKeys): Uint8Array {
  return sealRequestJSON('Q', json, bootKey, caller)
}

/** True if a request claims to be sealed to this boot key. */
export function isFor(sealed: Uint8Array, boot: BoxKeys): boolean {
  return isSealedTo(sealed, boot)
}

/**
 * Opens a request and identifies its caller. Returns undefined if the request was not sealed to
 * this boot key.
 */
export function openRequest(
  sealed: Uint8Array,
  boot: BoxKeys,
): { readonly caller: Uint8Array; readonly json: string } | undefined {
  const opened = openRequestJSON('Q', sealed, boot)
  return opened === undefined ? undefined : { caller: opened.sender, json: opened.json }
}

/** Seals an answer's JSON. */
export function sealAnswer(json: string, replyTo: Uint8Array, boot: BoxKeys): Uint8Array {
  return boxJSON('A', json, replyTo, boot)
}

/**
 * Opens an answer's JSON. Returns undefined if the answer is not from this boot key to the key
 * `replyTo`.
 */
export function openAnswer(
  answer: Uint8Array,
  bootKey: Uint8Array,
  replyTo: BoxKeys,
): string | undefined {
  return openJSON('A', answer, bootKey, replyTo)
}

/** A request with the facts that a caller seals with it. */
export interface Envelope {
  readonly id: string
  readonly issuedAt: number
  readonly replyTo: Uint8Array
  readonly request: unknown
}

/** An envelope that this caller makes. */
export interface NewEnvelope extends Envelope {
  /** The enclave's public key, which the caller has pinned. */
  readonly enclave: Uint8Array
  readonly request: ConfidentialHTTPRequestMessage
}

/** Writes an envelope as JSON. */
export function writeEnvelope({ enclave, id, issuedAt, replyTo, request }: NewEnvelope): string {
  const { body, ...others } = request.request
  // JSON has no undefined, so a request without a body has no field `body`.
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

/** Reads an envelope that is sealed for the enclave with this public key. Throws Rejection. */
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

/**
 * The rejection of a request. If the request could be opened, the rejection is sealed to the
 * caller; otherwise it is sent unsealed.
 */
export class Rejection extends Error {
  readonly status: number
  /** False only if this request was never carried out and never will be. */
  readonly mayHaveBeenSent: boolean

  constructor(status: number, message: string, mayHaveBeenSent = true) {
    super(message)
    this.status = status
    this.mayHaveBeenSent = mayHaveBeenSent
  }
}

/** Makes the rejection for a stranger while too many others wait. */
export function overloaded(): Rejection {
  return new Rejection(503, 'the enclave is overloaded', false)
}

/** Answers with an unsealed rejection and closes the connection. */
export function sendRejection(response: ServerResponse, { status, message }: Rejection): void {
  if (response.headersSent || response.destroyed) return
  response
    .writeHead(status, { 'content-type': 'text/plain', connection: 'close' })
    .end(`${message}\n`)
}

/** Makes the rejection for a caller of an older version. */
export function rejectVersion(): Rejection {
  return new Rejection(426, `the caller is of an older version: this enclave speaks ${VERSION}`)
}

/**
 * If the enclave rejected this caller's version of the protocol, returns a text that names the
 * enclave's version. Undefined for other answers. The answer is not sealed, so only a number from
 * it is quoted.
 */
export function versionMismatch({ status, body }: HttpAnswer): string | undefined {
  if (status !== 426) return undefined
  const [, version] = /speaks (\d{1,6})\s*$/.exec(new TextDecoder().decode(body)) ?? []
  const spoken = version === undefined ? 'another version' : `version ${version}`
  return `answered 426: it speaks ${spoken}, and this caller ${VERSION}`
}
