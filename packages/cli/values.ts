import { checkLogName, checkSubjectPrefix } from '@sluice/nats'
import { InvalidArgumentError } from 'commander'
import { ValidationError } from 'sluice/core'
import { feedResolution } from 'sluice/report'

/** The option or the argument to which a value belongs, and the limits of a number. */
interface Place {
  readonly name: string
  readonly min?: number
  readonly max?: number
}

/** A host and a port. */
export interface HostAndPort {
  readonly host: string
  readonly port: number
}

/** The length of each unit of time, in milliseconds. */
const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** The longest time that a timer can wait, in whole days. */
const LONGEST_WAIT = 24 * 86_400_000
/**
 * Unix times from this number on are read as milliseconds. In seconds, they would be after the year
 * 5000.
 */
const FIRST_MS = 100_000_000_000

/** The latest time that a date can hold, as Unix milliseconds. */
export const LATEST = 8_640_000_000_000_000

const formatNames = ['json', 'csv', 'table', 'lines'] as const
const TEMPLATE = 'template='

/** A format of reports. A template is a text with the names of fields: `{{feedID}} {{price}}`. */
export type OutputFormat =
  | { readonly name: (typeof formatNames)[number] }
  | { readonly name: 'template'; readonly text: string }

/** The help text of a value of the kind `past`. */
export const timeText =
  'a date such as 2027-01-31T12:00Z (UTC without a zone), a Unix time, or how long ago: 90s, 15m, 2h, 1d'

/**
 * The functions that read the values of options and arguments, by kind. They throw if a value is
 * invalid.
 */
const readers = {
  /** An option that may be repeated. Commander collects its values. */
  list: (text: string): readonly string[] => [text],
  number: (text: string, { min = 0, max }: Place): number => {
    const value = Number(text)
    if (text.trim() !== '' && value >= min && value <= (max ?? Number.POSITIVE_INFINITY))
      return value
    throw new InvalidArgumentError(
      `must be a number from ${min} ${max === undefined ? 'on' : `to ${max}`}`,
    )
  },
  whole: (text: string, { min = 0, max = Number.MAX_SAFE_INTEGER }: Place): number => {
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= min && value <= max) return value
    throw new InvalidArgumentError(`must be a whole number from ${min} to ${max}`)
  },
  port: (text: string): number => readers.whole(text, { name: '', max: 65_535 }),
  count: (text: string): number => {
    if (text === 'unlimited') return Number.POSITIVE_INFINITY
    if (/^\d{1,9}$/.test(text)) return Number(text)
    throw new InvalidArgumentError('must be a whole number, or unlimited')
  },
  /** A factor; `max` means no limit. */
  speed: (text: string): number => {
    const value = text === 'max' ? Number.POSITIVE_INFINITY : Number(text.replace(/x$/, ''))
    if (value > 0) return value
    throw new InvalidArgumentError('must be a number above 0, or max')
  },
  /** A length of time, in milliseconds. */
  span: (text: string): number => {
    const span = spanOf(text)
    if (span) return span
    throw new InvalidArgumentError('must be a time such as 90s, 15m, 2h or 1d')
  },
  /** A length of time that a timer can wait, in milliseconds. */
  wait: (text: string): number => {
    const span = readers.span(text)
    if (span <= LONGEST_WAIT) return span
    throw new InvalidArgumentError('must be at most 24d')
  },
  /** A length of time, in milliseconds; 0 for no limit. */
  lifetime: (text: string): number => {
    const span = text === '0' ? 0 : spanOf(text)
    if (span !== undefined) return span
    throw new InvalidArgumentError('must be a time such as 90d, or 0')
  },
  /** A time in the past, as Unix milliseconds: a date, a Unix time, or how long ago. */
  past: (text: string): number => {
    const span = spanOf(text)
    // Nobody means the milliseconds of now.
    if (span !== undefined) return 1000 * Math.floor((Date.now() - span) / 1000)
    if (/^\d{1,16}$/.test(text)) return Number(text) * (Number(text) < FIRST_MS ? 1000 : 1)
    return dateOf(text, timeText)
  },
  /** A time in the future, as Unix milliseconds: a date, or how long from now. */
  future: (text: string): number => {
    const span = spanOf(text)
    if (span !== undefined) return Date.now() + span
    return dateOf(text, 'a date such as 2027-01-31, or a time such as 90d')
  },
  /** A day, as `YYYY-MM-DD`. */
  day: (text: string): string => {
    const rule = 'a day such as 2027-01-31'
    if (text.length !== 10) throw new InvalidArgumentError(`must be ${rule}`)
    dateOf(text, rule)
    return text
  },
  /** A port, or a host and a port. The default host is loopback. */
  place: (text: string): HostAndPort => {
    const [, host = '127.0.0.1', port = ''] = /^(?:(.+):)?(\d{1,5})$/.exec(text) ?? []
    if (port === '' || Number(port) > 65_535)
      throw new InvalidArgumentError('must be a port, or a host and a port: 9464, 0.0.0.0:9464')
    return { host: host.replace(/^\[|\]$/g, ''), port: Number(port) }
  },
  /** How a command prints reports. */
  outputFormat: (text: string): OutputFormat => {
    if (text.startsWith(TEMPLATE)) return { name: 'template', text: text.slice(TEMPLATE.length) }
    const name = formatNames.find(each => each === text)
    if (name !== undefined) return { name }
    throw new InvalidArgumentError('must be json, csv, table, lines or template=TEXT')
  },
  /** A name in a relay's log. `subject` reads the prefix of the log's subjects. */
  logName: (text: string, { name }: Place): string => checkLogName(name, text),
  subject: (text: string, { name }: Place): string => checkSubjectPrefix(name, text),
  /**
   * The URLs of NATS servers. The reader throws ValidationError, because an error of commander
   * would quote the password.
   */
  servers: (text: string, { name }: Place): string => {
    if (!text.includes('@')) return text
    throw new ValidationError(
      `${name} must have no user name, password or token, which others could see: set NATS_USER and NATS_PASSWORD, or give --creds`,
    )
  },
}

/** The kinds of values that are read as text. The help shows such a value as its kind: `<file>`. */
type TextKind = 'address' | 'dir' | 'file' | 'key' | 'name' | 'url'
/** The kind of an option's value. */
export type Kind = keyof typeof readers | TextKind
/** The type of a value of a kind. */
export type ValueOfKind<Name extends Kind> = Name extends keyof typeof readers
  ? ReturnType<(typeof readers)[Name]>
  : string

/** The words for values in the help, by their kind. */
const words: Readonly<Partial<Record<Kind, string>>> = {
  count: 'n',
  day: 'date',
  future: 'when',
  lifetime: 'time',
  logName: 'name',
  number: 'n',
  outputFormat: 'format',
  past: 'time',
  place: '[host:]port',
  port: 'n',
  servers: 'urls',
  span: 'time',
  speed: 'n',
  wait: 'time',
  whole: 'n',
}

/** The word for a value of a kind in the help. */
export const wordOf = (kind: Kind): string => words[kind] ?? kind

/** Reads a value of a kind. */
export function readValue(kind: Kind, text: string, place: Place): unknown {
  return kind in readers ? readers[kind as keyof typeof readers](text, place) : text
}

/** The flag of an option: `--max-age` for the option `maxAge`. */
export function flagOf(name: string, isOn = false): string {
  return `--${isOn ? 'no-' : ''}${name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`
}

function spanOf(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  return count === undefined ? undefined : Number(count) * (UNITS[unit] as number)
}

/** A day, and perhaps a time of it, which is in UTC unless it has a zone. */
const DATE =
  /^(?!0000)(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/i

function dateOf(text: string, rule: string): number {
  const [date, year, month, day, clock = '00:00', zone = 'Z'] = DATE.exec(text) ?? []
  const time =
    date === undefined ? Number.NaN : Date.parse(`${year}-${month}-${day}T${clock}${zone}`)
  // Without this, the 30th of February would be the 2nd of March.
  const last = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > last)
    throw new InvalidArgumentError(`must be a date: month ${month} of ${year} has ${last} days`)
  if (Number.isNaN(time)) throw new InvalidArgumentError(`must be ${rule}`)
  return time
}

/** Throws if the time of an option is in the future. */
export function checkPast(option: string, ms: number | undefined): void {
  if (ms === undefined || ms <= Date.now()) return
  const time = ms <= LATEST ? `: ${new Date(ms).toISOString().replace('.000', '')} is` : ''
  throw new ValidationError(`${option} must not be in the future${time}`)
}

/** Milliseconds that a command may take from its start to its first request. */
const START = 60_000

/** How far back reports are fetched: as long as an outage may last, and at least to `from`. */
export function reachOf({
  backfill,
  from = Date.now(),
}: {
  readonly backfill: number
  readonly from?: number
}): number {
  return Math.max(backfill, Date.now() - from + START)
}

/** Converts Unix milliseconds to the unit of a feed, rounded down. */
export function feedTime(feedID: string, ms: number): number {
  return feedResolution(feedID) === 's' ? Math.floor(ms / 1000) : Math.floor(ms)
}

/**
 * The time of an option, or `otherwise` without the option, in the unit of a feed. Throws if the
 * feed has no time between two seconds, and the option is one.
 */
export function givenTime(
  option: string,
  feedID: string,
  ms: number | undefined,
  otherwise = 0,
): number {
  if (ms === undefined) return feedTime(feedID, otherwise)
  if (feedResolution(feedID) === 's' && ms % 1000 !== 0)
    throw new ValidationError(
      `${option} must be a whole second: the times of feed ${feedID} are in seconds`,
    )
  return feedTime(feedID, ms)
}

/** Converts a time of a feed to Unix milliseconds. */
export function feedTimeMs(feedID: string, time: number): number {
  return feedResolution(feedID) === 's' ? time * 1000 : time
}
