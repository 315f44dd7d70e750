import { type Command, InvalidArgumentError } from 'commander'
import { ValidationError } from '../core/errors.js'

/** Reads an argument that must be a number. */
export function number(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0))
    throw new InvalidArgumentError('must be a number from 0 on')
  return value
}

/** Rejects an option that is given twice, because only the last would count. Options that are lists may be repeated. */
export function rejectRepeats(command: Command): void {
  for (const option of command.options) {
    if (Array.isArray(option.defaultValue)) continue
    const name = option.name()
    let isGiven = false
    command.on(`option:${name}`, () => {
      if (isGiven) throw new ValidationError(`--${name} must be given once only`)
      isGiven = true
    })
  }
  for (const each of command.commands) rejectRepeats(each)
}
