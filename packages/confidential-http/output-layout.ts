import { ValidationError } from 'sluice/core'

/** The layout of the reference: nonce, ciphertext and tag, bound to nothing. */
export const REFERENCE_LAYOUT = 'reference'

/** Checks the id that an answer is bound to. */
export function checkRequestId(path: string, value: unknown): string {
  if (typeof value !== 'string' || !/^[!-~]{1,128}$/.test(value))
    throw new ValidationError(
      `${path} must be 1 to 128 visible characters of ASCII, another for each request`,
    )
  return value
}
