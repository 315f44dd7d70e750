import { InvalidArgumentError, Option } from 'commander'
import { feedResolution } from 'sluice/report'

const UNITS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}
/** Unix times from here on are in milliseconds: in seconds they would lie after the year 5000. */
const FIRST_MS = 100_000_000_000

/** What the argument of `pastTime` may be. */
export const timeText =
  'a date such as 2027-01-31T12:00Z, a Unix time, or how long ago: 90s, 15m, 2h, 1d'

/** Reads a time that has been, as Unix milliseconds. */
export function pastTime(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  if (count !== undefined) return Date.now() - Number(count) * (UNITS[unit] as number)
  if (/^\d{1,16}$/.test(text)) return Number(text) < FIRST_MS ? Number(text) * 1000 : Number(text)
  const time = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(time)) throw new InvalidArgumentError(`must be ${timeText}`)
  return time
}

/** An option that is a length of time, as milliseconds. */
export function timeOption(flags: string, description: string, standard?: string): Option {
  const option = new Option(flags, `${description}: 90s, 15m, 2h or 1d`).argParser(span)
  return standard === undefined ? option : option.default(span(standard), standard)
}

function span(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  if (count === undefined || Number(count) === 0)
    throw new InvalidArgumentError('must be a time such as 90s, 15m, 2h or 1d')
  return Number(count) * (UNITS[unit] as number)
}

/** Unix milliseconds in the unit of a feed, rounded to the past. */
export function feedTime(feedID: string, ms: number): number {
  return feedResolution(feedID) === 's' ? Math.floor(ms / 1000) : Math.floor(ms)
}

/** A time of a feed as Unix milliseconds. */
export function feedTimeMs(feedID: string, time: number): number {
  return feedResolution(feedID) === 's' ? time * 1000 : time
}
