import { createHash } from 'node:crypto'

/** A digest in base64 with the length of a signature. */
export function digestText(text: string): string {
  return createHash('sha512').update(text).digest('base64')
}
