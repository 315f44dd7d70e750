import { type BoxKeys, box, concat, isBytes, openBox, openSealed, seal } from 'sluice/internal'

/*
 * JSON messages between two parties that know each other's public keys. Two parties use one shared
 * key for all their messages. So each message begins with a letter, its kind, which distinguishes
 * protocols and directions.
 *
 *   request   recipient's public key (32 bytes) ‖ sealed box to it of:
 *               sender's public key (32 bytes) ‖ box from the sender to the recipient of:
 *               kind ‖ JSON
 *   boxed     box from the sender to the recipient of: kind ‖ JSON
 *
 * The sealed box hides the sender. The inner box authenticates the sender.
 */

/** The length of a public key, in bytes. */
const KEY_BYTES = 32

/** Seals a request to a recipient. */
export function sealRequestJSON(
  kind: string,
  json: string,
  recipient: Uint8Array,
  sender: BoxKeys,
): Uint8Array {
  const boxed = boxJSON(kind, json, recipient, sender)
  return concat(recipient, seal(concat(sender.publicKey, boxed), recipient))
}

/** Tells whether a request names these keys as its recipient. */
export function isSealedTo(sealed: Uint8Array, { publicKey }: BoxKeys): boolean {
  return publicKey.every((byte, index) => byte === sealed[index])
}

/**
 * Opens a request and identifies its sender. Returns undefined if the request does not open with
 * these keys.
 */
export function openRequestJSON(
  kind: string,
  sealed: Uint8Array,
  keys: BoxKeys,
): { readonly sender: Uint8Array; readonly json: string } | undefined {
  if (!isSealedTo(sealed, keys)) return undefined
  const message = openSealed(sealed.subarray(KEY_BYTES), keys)
  if (message === undefined || message.byteLength < KEY_BYTES) return undefined
  const sender = message.slice(0, KEY_BYTES)
  const json = openJSON(kind, message.subarray(KEY_BYTES), sender, keys)
  return json === undefined ? undefined : { sender, json }
}

/**
 * Makes a box that contains JSON. Only the recipient can open the box, and only the sender can make
 * it.
 */
export function boxJSON(
  kind: string,
  json: string,
  recipient: Uint8Array,
  sender: BoxKeys,
): Uint8Array {
  return box(new TextEncoder().encode(kind + json), recipient, sender)
}

/**
 * Opens a box that contains JSON. Returns undefined if the box is not from this sender to these
 * keys, or has another kind.
 */
export function openJSON(
  kind: string,
  boxed: Uint8Array,
  sender: Uint8Array,
  keys: BoxKeys,
): string | undefined {
  const opened = openBox(boxed, sender, keys)
  return opened !== undefined && opened[0] === kind.charCodeAt(0)
    ? new TextDecoder().decode(opened.subarray(1))
    : undefined
}

/** Writes a message as protobuf's JSON does: bytes become base64, and bigints become strings. */
export function toJSON(message: unknown): string {
  return JSON.stringify(
    message,
    function write(this: Readonly<Record<string, unknown>>, key, value) {
      // If the property is a Buffer, `value` is already the result of its `toJSON`. So the code
      // reads the original property from `this`.
      const given = this[key]
      if (isBytes(given)) return Buffer.from(given).toString('base64')
      return typeof given === 'bigint' ? String(given) : value
    },
  )
}

/** Parses JSON that should be an object. Returns undefined if the text is not JSON. */
export function parseObject(json: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return JSON.parse(json) ?? {}
  } catch {
    return undefined
  }
}
