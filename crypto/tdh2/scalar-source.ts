import { ValidationError } from '../../core/errors.js'
import { checkFunction } from '../../core/options.js'
import { ORDER, randomScalar } from './group.js'

/** Gives a new secret scalar from 1 to n - 1 at every call. Nobody may be able to guess one, and none may come twice. */
export type ScalarSource = () => bigint

/** The source, the platform’s own generator where there is none, with every scalar checked. */
export function checkedSource(source: ScalarSource = randomScalar): ScalarSource {
  checkFunction('randomScalar', source)
  return function drawScalar() {
    return checkScalar('what randomScalar gives', source())
  }
}

/** A secret scalar that a caller handed in. */
export function checkScalar(field: string, value: unknown): bigint {
  if (typeof value !== 'bigint' || value < 1n || value >= ORDER)
    throw new ValidationError(`${field} must be a bigint from 1 to the order of P-256 less 1`)
  return value
}
