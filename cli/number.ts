import { InvalidArgumentError } from 'commander'

/** An argument that must be a number. */
export function number(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0))
    throw new InvalidArgumentError('must be a number from 0 on')
  return value
}
