import type { Command } from 'commander'
import { ValidationError } from '../core/errors.js'

/** Refuses an option given twice, of which the last would count silently, in a command and those below it; lists may repeat. */
export function refuseRepeats(command: Command): void {
  for (const option of command.options) {
    if (Array.isArray(option.defaultValue)) continue
    const name = option.name()
    let isGiven = false
    command.on(`option:${name}`, () => {
      if (isGiven) throw new ValidationError(`--${name} must be given once only`)
      isGiven = true
    })
  }
  for (const each of command.commands) refuseRepeats(each)
}
