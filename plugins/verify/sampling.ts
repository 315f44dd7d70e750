import { ValidationError } from '../../core/errors.js'
import { checkNumber, checkOptions } from '../../core/options.js'

/**
 * Which reports are verified before you get them: `all`, a random one of n (`{ sample: n }`), or none until you call
 * `report.verify` (`on-demand`).
 */
export type VerifyMode =
  | 'all'
  | 'on-demand'
  | {
      /** One report of so many is verified, at random: a whole number from 1 to 1,000,000. */
      readonly sample: number
    }

/** Checks a mode; returns n if it verifies one of n reports, infinity if none. */
export function checkMode(mode: unknown): number {
  if (mode === 'all') return 1
  if (mode === 'on-demand') return Number.POSITIVE_INFINITY
  if (typeof mode !== 'object')
    throw new ValidationError("mode must be 'all', 'on-demand' or { sample: n }")
  const { sample } = checkOptions('mode', mode as { sample?: number }, { sample: true })
  return checkNumber('mode.sample', sample, { min: 1, max: 1_000_000, whole: true })
}

/** Random numbers that are drawn at a time. */
const DRAWS = 256

/** Creates a source of random numbers from 0 up to 1 that earlier ones do not predict. */
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
