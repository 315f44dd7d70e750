import { ValidationError } from '../core/errors.js'

/**
 * Checks what a part of the library is that was loaded later. Rollup puts such parts at the end of a bundle of one file, and a program
 * that waits at a top-level await before it never comes there: it gets undefined.
 */
export function loaded<Part>(part: Part | undefined): Part {
  if (part !== undefined) return part
  throw new ValidationError(
    'a part of sluice is not loaded yet: in a bundle of one file, a top-level await runs before the parts below it. Put it into an async function',
  )
}
