import { isBytes } from '../../core/options.js'
import { type BoxKeys, box, concat, openBox, openSealed, seal } from '../../crypto/sealed-box.js'

/*
 * The protocol between a caller and a remote enclave. All keys are X25519, all boxes are NaCl's. An enclave has two key pairs:
 * the enclave key, whose public key callers pin, and a boot key, made at each start and never stored.
 *
 *   POST /v2/boot-key   asker: the public key of a pair that the caller made for this question (32 bytes)
 *     answer            box from the enclave key to asker of: 'K' ‖ JSON { version, bootKey, upFor }
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

/** The kinds of boxes: the answer with a boot key (K), a request (Q), an answer to it (A). */
type Kind = 'K' | 'Q' | 'A'

/** Seals a boot key's JSON to the asker. */
export function sealBootKey(json: string, asker: Uint8Array, enclave: BoxKeys): Uint8Array {
  return box(write('K', json), asker, enclave)
}

/** Opens a boot key's JSON; undefined if it is not from this enclave key to this asker. */
export function openBootKey(
  answer: Uint8Array,
  enclave: Uint8Array,
  asker: BoxKeys,
): string | undefined {
  return read('K', openBox(answer, enclave, asker))
}

/** Seals a request's JSON. */
export function sealRequest(json: string, bootKey: Uint8Array, caller: BoxKeys): Uint8Array {
  return concat(
    bootKey,
    seal(concat(caller.publicKey, box(write('Q', json), bootKey, caller)), bootKey),
  )
}

/** True if a request claims to be sealed to this boot key. */
export function isFor(sealed: Uint8Array, { publicKey }: BoxKeys): boolean {
  return publicKey.every((byte, index) => byte === sealed[index])
}

/** Opens a request and identifies its caller; undefined if it was not sealed to this boot key. */
export function openRequest(
  sealed: Uint8Array,
  boot: BoxKeys,
): { readonly caller: Uint8Array; readonly json: string } | undefined {
  if (!isFor(sealed, boot)) return undefined
  const message = openSealed(sealed.subarray(KEY_BYTES), boot)
  if (message === undefined || message.byteLength < KEY_BYTES) return undefined
  const caller = message.slice(0, KEY_BYTES)
  const json = read('Q', openBox(message.subarray(KEY_BYTES), caller, boot))
  return json === undefined ? undefined : { caller, json }
}

/** Seals an answer's JSON. */
export function sealAnswer(json: string, replyTo: Uint8Array, boot: BoxKeys): Uint8Array {
  return box(write('A', json), replyTo, boot)
}

/** Opens an answer's JSON; undefined if it is not from this boot key to this key. */
export function openAnswer(
  answer: Uint8Array,
  bootKey: Uint8Array,
  replyTo: BoxKeys,
): string | undefined {
  return read('A', openBox(answer, bootKey, replyTo))
}

/** Writes a message as protobuf's JSON: bytes in base64, big integers as strings. */
export function toJSON(message: unknown): string {
  return JSON.stringify(
    message,
    function write(this: Readonly<Record<string, unknown>>, key, value) {
      // `value` is what a Buffer's toJSON returned.
      const given = this[key]
      if (isBytes(given)) return Buffer.from(given).toString('base64')
      return typeof given === 'bigint' ? String(given) : value
    },
  )
}

function write(kind: Kind, json: string): Uint8Array {
  return new TextEncoder().encode(kind + json)
}

function read(kind: Kind, opened: Uint8Array | undefined): string | undefined {
  return opened !== undefined && opened[0] === kind.charCodeAt(0)
    ? new TextDecoder().decode(opened.subarray(1))
    : undefined
}

/** Parses JSON that should be an object; undefined if it is not JSON. */
export function parseObject(json: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return JSON.parse(json) ?? {}
  } catch {
    return undefined
  }
}
