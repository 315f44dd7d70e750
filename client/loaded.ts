import { ValidationError } from '../core/errors.js'

/**
 * Checks a part of the library that was imported lazily. In a bundle of one file, Rollup puts such
 * parts at the end. A program with a top-level await above them gets undefined.
 */
export function loaded<Part>(part: Part | undefined): Part {
  if (part !== undefined) return part
  throw new ValidationError(
    'a part of sluice is not loaded yet: in a bundle of one file, a top-level await runs before the parts below it. Put it into an async function',
  )
}
