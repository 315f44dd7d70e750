import type { BoxKeys } from 'sluice/internal'
import {
  boxJSON,
  isSealedTo,
  openJSON,
  openRequestJSON,
  sealRequestJSON,
} from '../sealed-message.js'

export { parseObject, toJSON } from '../sealed-message.js'

/*
 * The protocol between a caller and a remote enclave. All keys are X25519, all boxes are NaCl's. An enclave has two key pairs:
 * the enclave key, whose public key callers pin, and a boot key, made at each start and never stored.
 *
 *   POST /v2/boot-key   asker: the public key of a pair that the caller made for this question (32 bytes)
 *     answer            box from the enclave key to asker of: 'K' ‖ JSON { version, bootKey, upFor, evidence? }
 *   POST /v2/requests   boot key (32 bytes) ‖ sealed box to the boot key of:
 *                         the caller's public key (32 bytes) ‖ box from the caller to the boot key of: 'Q' ‖ JSON
 *                         { version, enclave, id, issuedAt, replyTo, request }
 *     answer            box from the boot key to replyTo of: 'A' ‖ JSON { id, response } or { id, failure }
 *
 * Keys and ids are hexadecimal digits in JSON. `issuedAt` is milliseconds of Unix time, `upFor` the milliseconds since the
 * enclave's start by a clock that never goes back. `replyTo` is the public key of a pair made for this one request.
 *
 * Security properties:
 * - Only the holder of the enclave key can answer a question for the boot key, and an answer opens only for its own question,
 *   so a replayed answer opens for nobody. The enclave key authenticates boot keys and nothing else.
 * - Evidence, { format, bytes in base64 }, holds a hash of the enclave key, the boot key and the asker (attestation/evidence.ts):
 *   an earlier one, or that of another enclave, is none for this question.
 * - A request opens only at one start of one enclave. After a restart nobody can open a recorded request, with whatever other
 *   keys; nor can another enclave with the same enclave key. So a replay can only reach the start that the request was made
 *   for, which remembers its id (replay-guard.ts).
 * - `enclave` names the key that the caller has pinned. Otherwise an enclave could present another's boot key as its own, and
 *   forward its requests to the other.
 * - The sealed box hides the caller, the box inside authenticates it. The first letter keeps boxes of different kinds apart,
 *   because two parties share one key for both directions.
 * - Anybody can forge an unsealed rejection. It never makes a caller believe that nothing was carried out: see boot-keys.ts for
 *   410, the only one that a caller acts upon.
 */

/** The version of the protocol. */
export const VERSION = 2

/** The path for questions for the boot key. */
export const BOOT_KEY_PATH = '/v2/boot-key'

/** The path for requests. */
export const REQUEST_PATH = '/v2/requests'

/** The longest request that a caller sends; an enclave may accept less. */
export const MAX_SEALED_BYTES = 4_194_304

/** The length of a key, in bytes. */
export const KEY_BYTES = 32

/** The length of a request of no JSON: three keys, a nonce, two tags and a letter. */
export const MIN_SEALED_BYTES: number = 3 * KEY_BYTES + 24 + 2 * 16 + 1

// The kinds of boxes: the answer with a boot key (K), a request (Q), an answer to it (A).

/** Seals a boot key's JSON to the asker. */
export function sealBootKey(json: string, asker: Uint8Array, enclave: BoxKeys): Uint8Array {
  return boxJSON('K', json, asker, enclave)
}

/** Opens a boot key's JSON; undefined if it is not from this enclave key to this asker. */
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

/** Opens a request and identifies its caller; undefined if it was not sealed to this boot key. */
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

/** Opens an answer's JSON; undefined if it is not from this boot key to this key. */
export function openAnswer(
  answer: Uint8Array,
  bootKey: Uint8Array,
  replyTo: BoxKeys,
): string | undefined {
  return openJSON('A', answer, bootKey, replyTo)
}
