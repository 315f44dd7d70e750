import { isBytes } from '../../core/options.js'
import { type BoxKeys, box, openBox, openSealed, seal } from '../../core/sealed-box.js'

/*
 * How a request travels to a remote enclave and its answer back. All keys are X25519.
 *
 *   request  sealed box to the enclave's key of: the caller's public key (32 bytes) ‖ box from caller to enclave of JSON
 *   JSON     { version, id, issuedAt, replyTo, request }
 *   answer   box from the enclave to `replyTo` of JSON { id, response } or { id, failure }
 *
 * The outer seal hides who asks. The inner box says who asks. `replyTo` is a key made for this one request, so that an
 * answer stays closed even to those who get hold of the caller's key later; that it comes from the enclave's own key
 * shows who answered. Times are in milliseconds of Unix time, keys and ids in hexadecimal digits.
 */

/** Where requests are posted. */
export const REQUEST_PATH = '/v1/requests'

/** The longest request that is sent; an enclave may take less. */
export const MAX_SEALED_BYTES = 4_194_304

const KEY_BYTES = 32

/** Seals a request's JSON. */
export function sealRequest(json: string, enclave: Uint8Array, caller: BoxKeys): Uint8Array {
  const boxed = box(new TextEncoder().encode(json), enclave, caller)
  const message = new Uint8Array(KEY_BYTES + boxed.byteLength)
  message.set(caller.publicKey)
  message.set(boxed, KEY_BYTES)
  return seal(message, enclave)
}

/** Who asks, and what; undefined where it was not sealed to these keys. */
export function openRequest(
  sealed: Uint8Array,
  enclave: BoxKeys,
): { readonly caller: Uint8Array; readonly json: string } | undefined {
  const message = openSealed(sealed, enclave)
  if (message === undefined || message.byteLength < KEY_BYTES) return undefined
  const caller = message.slice(0, KEY_BYTES)
  const opened = openBox(message.subarray(KEY_BYTES), caller, enclave)
  return opened && { caller, json: new TextDecoder().decode(opened) }
}

/** Seals an answer's JSON. */
export function sealAnswer(json: string, replyTo: Uint8Array, enclave: BoxKeys): Uint8Array {
  return box(new TextEncoder().encode(json), replyTo, enclave)
}

/** An answer's JSON; undefined where it is not the enclave's, or not to this key. */
export function openAnswer(
  answer: Uint8Array,
  enclave: Uint8Array,
  replyTo: BoxKeys,
): string | undefined {
  const opened = openBox(answer, enclave, replyTo)
  return opened && new TextDecoder().decode(opened)
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
