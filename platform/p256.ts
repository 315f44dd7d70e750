import { createECDH } from 'node:crypto'

/** A secret scalar in the platform's memory. The platform multiplies it in constant time. */
export interface P256Scalar {
  /** The product of the scalar and the base point: 65 bytes, uncompressed. */
  readonly product: Uint8Array
  /**
   * Multiplies the scalar by a point of 65 bytes. Returns only the x coordinate of the product,
   * like a Diffie-Hellman exchange.
   */
  xOfProduct(point: Uint8Array): Uint8Array
}

/** Imports a scalar of 32 bytes, from 1 to n - 1. Undefined if the platform has no P-256. */
export function importP256(scalar: Uint8Array): P256Scalar | undefined {
  try {
    const pair = createECDH('prime256v1')
    pair.setPrivateKey(scalar)
    return {
      product: pair.getPublicKey(),
      xOfProduct: point => pair.computeSecret(point),
    }
  } catch {
    return undefined
  }
}
