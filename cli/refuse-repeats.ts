import type { Command } from 'commander'
import { ValidationError } from '../core/errors.js'

/** Refuses an option given twice, of which the last would count silently; `repeatable` names those that collect. */
export function refuseRepeats(command: Command, repeatable: readonly string[]): void {
  for (const option of command.options) {
    const name = option.name()
    if (repeatable.includes(name)) continue
    let isGiven = false
    command.on(`option:${name}`, () => {
      if (isGiven) throw new ValidationError(`--${name} must be given once only`)
      isGiven = true
    })
  }
}
