const nameOf = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)?.get as () => string | undefined

/** True for a Uint8Array of whatever realm, and for what extends it. */
export function isBytes(value: unknown): value is Uint8Array {
  return nameOf.call(value) === 'Uint8Array'
}
