import { ValidationError } from '../../core/errors.js'
import { LABEL_BYTES } from './wrapped-key.js'

/** The label of a vault’s secret: 12 zero bytes, then the 20 of the owner’s address, which may begin with 0x. */
export function ownerLabel(owner: string): Uint8Array {
  const [, digits] = /^(?:0x)?([0-9a-f]{40})$/i.exec(String(owner)) ?? []
  if (digits === undefined)
    throw new ValidationError('owner must be an address: 40 hexadecimal digits')
  const label = new Uint8Array(LABEL_BYTES)
  for (let at = 0; at < 20; at++)
    label[12 + at] = Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16)
  return label
}
