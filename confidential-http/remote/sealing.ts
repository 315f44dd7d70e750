import { isBytes } from '../../core/options.js'
import { type BoxKeys, box, openBox, openSealed, seal } from '../../crypto/sealed-box.js'

/*
 * How a request travels to a remote enclave and its answer back. All keys are X25519, all boxes are NaCl's. An enclave has
 * two key pairs: the enclave key, whose public half callers pin, and a boot key, made at each start and never stored.
 *
 *   POST /v2/boot-key   asker: the public key of a pair the caller has made for this question (32 bytes)
 *     answer            box from the enclave key to asker of: 'K' ‖ JSON { version, bootKey, upFor }
 *   POST /v2/requests   boot key (32 bytes) ‖ sealed box to the boot key of:
 *                         the caller's public key (32 bytes) ‖ box from the caller to the boot key of: 'Q' ‖ JSON
 *                         { version, enclave, id, issuedAt, replyTo, request }
 *     answer            box from the boot key to replyTo of: 'A' ‖ JSON { id, response } or { id, failure }
 *
 * Keys and ids are hexadecimal digits in JSON. `issuedAt` is milliseconds of Unix time, `upFor` the milliseconds since the
 * enclave's start by a clock that never goes back. `replyTo` is the public key of a pair made for this one request.
 *
 * What this comes to:
 * - Only the holder of the enclave key can answer a question for the boot key, and an answer opens for its own question
 *   alone: an old one, replayed, opens for nobody. What the enclave key signs for is nothing but boot keys.
 * - A request opens at one start of one enclave. After a restart nobody can open it any more, whoever recorded it and
 *   whatever other keys he gets hold of; nor can another enclave with the same enclave key. So a replay can only go to the
 *   start that the request was made for, which remembers its id (replay-guard.ts).
 * - `enclave` names the pinned key the caller means. Else an enclave could pass off another's boot key as its own, and pass
 *   on to the other what was meant for itself.
 * - The sealed box hides who asks, the box inside shows it. The first letter keeps a box of one kind from being taken for
 *   one of another: two parties have the same key in both directions.
 * - A refusal that is not sealed can be anybody's. It never makes a caller believe that nothing was carried out: see
 *   boot-keys.ts for the one that it acts upon, 410.
 */

/** The version of all of this. */
export const VERSION = 2

/** Where the boot key is asked for. */
export const BOOT_KEY_PATH = '/v2/boot-key'

/** Where requests are posted. */
export const REQUEST_PATH = '/v2/requests'

/** The longest request that is sent; an enclave may take less. */
export const MAX_SEALED_BYTES = 4_194_304

/** The bytes of a key. */
export const KEY_BYTES = 32

/** What is in a box: the answer with a boot key, a request (Q), an answer. */
type Kind = 'K' | 'Q' | 'A'

/** Seals a boot key's JSON to who asked for it. */
export function sealBootKey(json: string, asker: Uint8Array, enclave: BoxKeys): Uint8Array {
  return box(write('K', json), asker, enclave)
}

/** A boot key's JSON; undefined where it is not from this enclave key, or not to this asker. */
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

/** Whether a request says of itself that it is sealed to this boot key. */
export function isFor(sealed: Uint8Array, { publicKey }: BoxKeys): boolean {
  return publicKey.every((byte, index) => byte === sealed[index])
}

/** Who asks, and what; undefined where it was not sealed to this boot key. */
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

/** An answer's JSON; undefined where it is not from this boot key, or not to this key. */
export function openAnswer(
  answer: Uint8Array,
  bootKey: Uint8Array,
  replyTo: BoxKeys,
): string | undefined {
  return read('A', openBox(answer, bootKey, replyTo))
}

/** JSON of a message: bytes in base64, big integers as strings, both as protobuf has them. */
export function toJSON(message: unknown): string {
  return JSON.stringify(
    message,
    function write(this: Readonly<Record<string, unknown>>, key, value) {
      // A Buffer has been made JSON of already in `value`.
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

function concat(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.byteLength + second.byteLength)
  both.set(first)
  both.set(second, first.byteLength)
  return both
}
