import { type Command, InvalidArgumentError } from 'commander'
import { ValidationError } from 'sluice/core'

/** Reads an argument that must be a number. */
export function number(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0))
    throw new InvalidArgumentError('must be a number from 0 on')
  return value
}

/** Reads an argument that must be a whole number between two. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return text => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= min && value <= max) return value
    throw new InvalidArgumentError(`must be a whole number from ${min} to ${max}`)
  }
}

/** Reads a count of attempts, which may have no limit. */
export function attempts(text: string): number {
  if (text === 'unlimited') return Number.POSITIVE_INFINITY
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('must be a whole number, or unlimited')
}

/** Collects the values of an option that may be repeated. */
export function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text]
}

const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

function spanOf(text: string): number | undefined {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  return unit === undefined ? undefined : Number(count) * (UNITS[unit] as number)
}

/** Reads a span of time in milliseconds; 0 for none. */
export function lifetime(text: string): number {
  const span = text === '0' ? 0 : spanOf(text)
  if (span === undefined) throw new InvalidArgumentError('must be a time such as 90d, or 0')
  return span
}

/** Reads a date, or a time from now on, as Unix milliseconds. */
export function when(text: string): number {
  const span = spanOf(text)
  if (span !== undefined) return Date.now() + span
  const time = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(time))
    throw new InvalidArgumentError('must be a date such as 2027-01-31, or a time such as 90d')
  return time
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

/** Adds examples to the help of a command; tests hold them to its options. */
export function addExamples(command: Command, ...examples: readonly string[]): Command {
  const lines = examples.map(example => `  $ ${example}`)
  return command.addHelpText('after', `\nExamples:\n${lines.join('\n')}`)
}
