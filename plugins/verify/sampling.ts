import { ValidationError } from '../../core/errors.js'
import { checkNumber, checkOptions } from '../../core/options.js'

/**
 * Which reports are verified on their way: `all`, a random one of so many (`{ sample: 100 }`), or none until you ask
 * (`on-demand`).
 */
export type VerifyMode = 'all' | 'on-demand' | { readonly sample: number }

/** A mode's share of reports: one of so many; infinity is none. */
export function checkMode(mode: unknown): number {
  if (mode === 'all') return 1
  if (mode === 'on-demand') return Number.POSITIVE_INFINITY
  if (typeof mode !== 'object')
    throw new ValidationError("mode must be 'all', 'on-demand' or { sample: n }")
  const { sample } = checkOptions('mode', mode as { sample?: number }, ['sample'])
  return checkNumber('mode.sample', sample, { min: 1, max: 1_000_000, whole: true })
}

/** Draws are made so many at a time. */
const DRAWS = 256

/** Numbers from 0 up to 1 that nobody can foretell, whatever they have seen of those before. */
export function createSecureRandom(): () => number {
  const draws = new Uint32Array(DRAWS)
  let left = 0
  return function draw() {
    if (left === 0) {
      crypto.getRandomValues(draws)
      left = DRAWS
    }
    return (draws[--left] as number) / 2 ** 32
  }
}
