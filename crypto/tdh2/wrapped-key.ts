import { ValidationError } from '../../core/errors.js'
import { checkObject } from '../../core/options.js'
import { checkBytes, encodeBase64, parseKey } from '../bytes.js'
import type { Bytes } from '../crypto.js'
import {
  FieldReader,
  hashCiphertext,
  hashToPad,
  pointText,
  rejection,
  scalarText,
} from './encoding.js'
import {
  checkPoint,
  commitment,
  G,
  GROUP,
  modOrder,
  multiply,
  type Point,
  type ScalarSource,
} from './group.js'
import type { PublicKey } from './key.js'

/**
 * A key of 32 bytes that is encrypted with TDH2. The reference implementation calls it the
 * ciphertext.
 */
export interface WrappedKey {
  /** 32 public bytes. The proof of the ciphertext binds them to it. */
  readonly label: Uint8Array
  /** The key XOR the pad, 32 bytes. */
  readonly c: Uint8Array
  /** The generator times the ciphertext's random scalar r. */
  readonly u: Point
}

const NAME = 'TDH2 ciphertext'

/** Checks a wrapped key from a caller. */
export function checkWrappedKey<Wrapped extends WrappedKey>(wrapped: Wrapped): Wrapped {
  const { label, c, u } = checkObject('ciphertext', wrapped)
  checkBytes('ciphertext.label', label, LABEL_BYTES)
  checkBytes('ciphertext.c', c, LABEL_BYTES)
  checkPoint('ciphertext.u', u)
  return wrapped
}

/** The length of a label and of a wrapped key, in bytes. */
export const LABEL_BYTES = 32

/**
 * Encrypts a key of 32 bytes: c = H1(r H) ⊕ key, u = r G and ū = r Ḡ. Adds a proof that u and ū
 * have the same r. The proof is e = H2(c, label, u, s G, ū, s Ḡ) and f = s + r e. The proof also
 * binds c and the label. Draws r, then s. Returns the JSON text.
 */
export function wrapKey(
  publicKey: PublicKey,
  key: Uint8Array,
  label: Uint8Array,
  draw: ScalarSource,
): string {
  const r = draw()
  const s = draw()
  const c = xor(hashToPad(multiply(publicKey.h, r)), key)
  const u = multiply(G, r)
  const w = multiply(G, s)
  const uBar = multiply(publicKey.gBar, r)
  const wBar = multiply(publicKey.gBar, s)
  const e = hashCiphertext(c, label, [u, w, uBar, wBar])
  return JSON.stringify({
    Group: GROUP,
    C: encodeBase64(c),
    Label: encodeBase64(label),
    U: pointText(u),
    U_bar: pointText(uBar),
    E: scalarText(e),
    F: scalarText(modOrder(s + r * e)),
  })
}

/**
 * Reads a wrapped key and verifies its proof. For this, w = f G - e u and w̄ = f Ḡ - e ū must hash
 * to e. Throws TDH2Error.
 */
export function parseWrappedKey(publicKey: PublicKey, json: string): WrappedKey {
  const fields = FieldReader.ofGroup(NAME, json)
  const c = fields.bytes('C')
  const label = fields.bytes('Label')
  if (c.byteLength !== LABEL_BYTES || label.byteLength !== LABEL_BYTES)
    throw rejection(NAME, 'C and Label: message and label must be 32B long')
  const u = fields.point('U')
  const uBar = fields.point('U_bar')
  const e = fields.scalar('E')
  const f = fields.scalar('F')
  const w = commitment(G, u, f, e)
  const wBar = commitment(publicKey.gBar, uBar, f, e)
  if (hashCiphertext(c, label, [u, w, uBar, wBar]) !== e) throw rejection(NAME, 'E: wrong e')
  return { label, c, u }
}

/** Decrypts the key. `point` is r H. */
export function unwrapKey(wrapped: WrappedKey, point: Point): Bytes {
  const pad = hashToPad(point)
  const key = xor(pad, wrapped.c)
  pad.fill(0)
  return key
}

function xor(one: Uint8Array, other: Uint8Array): Bytes {
  return Uint8Array.from(one, (byte, at) => byte ^ (other[at] ?? 0))
}

/**
 * Makes the label of a vault’s secret: 12 zero bytes, then the 20 bytes of the owner’s address. The
 * address may begin with 0x.
 */
export function ownerLabel(owner: string): Uint8Array {
  const [, digits] = /^(?:0x)?([0-9a-f]{40})$/i.exec(String(owner)) ?? []
  if (digits === undefined)
    throw new ValidationError('owner must be an address: 40 hexadecimal digits')
  return parseKey('owner', digits.padStart(2 * LABEL_BYTES, '0'))
}
