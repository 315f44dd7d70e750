import { createECDH } from 'node:crypto'

/** A secret scalar in the platform's memory, for products in constant time. */
export interface P256Scalar {
  /** Its product with the base point: 65 bytes, uncompressed. */
  readonly product: Uint8Array
  /**
   * The x coordinate of its product with a point in 65 bytes: as much as a Diffie-Hellman exchange
   * needs.
   */
  xOfProduct(point: Uint8Array): Uint8Array
}

/** Takes a scalar of 32 bytes over, from 1 to n - 1; undefined where the platform has no P-256. */
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
