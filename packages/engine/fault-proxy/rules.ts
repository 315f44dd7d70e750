import {
  checkNumber,
  checkOptions,
  MAX_TIMER,
  type OptionNames,
  ValidationError,
} from 'sluice/core'

/** From the client to the upstream, or back. */
export type Direction = 'up' | 'down'
export type Directions = Direction | 'both'

const kinds = ['reset', 'half-close', 'blackhole', 'drip', 'latency', 'corrupt'] as const

/** A fault of a script, named as the method of the proxy that does the same. */
export type FaultKind = (typeof kinds)[number]

/**
 * One rule of a script: where it strikes, and what happens there. Without `frame`, `afterBytes` and `afterMs` it
 * strikes when the connection is accepted, before the upstream is connected. Equal seeds and scripts decide alike for
 * equal connections, frames and bytes.
 */
export interface FaultRule {
  /** The fault to cause. */
  readonly do: FaultKind
  /** The connection, by its order of arrival, from 1. @default every connection */
  readonly connection?: number
  /**
   * The data frame of the server, from 1, of a WebSocket without TLS. Pings, pongs and closes are not counted, as their
   * number depends on timing.
   */
  readonly frame?: number
  /**
   * Whether it strikes before the frame's first byte, in the middle of its payload, or after its last byte; not for
   * corrupt, which affects the whole payload. @default 'start'
   */
  readonly at?: 'start' | 'middle' | 'end'
  /** Strikes after this many bytes of the direction, HTTP heads included; for both, the bytes of the server. */
  readonly afterBytes?: number
  /** Strikes this many ms after the connection was accepted. */
  readonly afterMs?: number
  /**
   * Strikes again after every further N frames, bytes or ms; without these, at every Nth connection from `connection`
   * on. @default once in a connection
   */
  readonly every?: number
  /** How often it strikes at most, in all connections together. @default Infinity */
  readonly times?: number
  /** The chance that it strikes where it could, 0 to 1. @default 1 */
  readonly probability?: number
  /**
   * The direction it is for. A reset always affects both: the direction says which bytes `afterBytes` counts. A corrupt
   * rule with `frame` is 'down'; with `afterBytes` it is 'up' or 'down'. @default 'both' for blackhole, drip and
   * latency, 'down' for half-close and corrupt
   */
  readonly direction?: Directions
  /** How long a blackhole, drip or latency lasts, in ms. @default as long as the connection */
  readonly forMs?: number
  /** The rate of a drip. */
  readonly bytesPerSecond?: number
  /** The delay of a latency, in ms. */
  readonly latencyMs?: number
  /** Varies the delay at random by up to this many ms. @default 0 */
  readonly jitterMs?: number
  /** In how many bytes a bit flips: bytes of the frame's payload, or else the next bytes. @default 1 */
  readonly bits?: number
}

/** A rule with its defaults. */
export interface Rule extends Required<Omit<FaultRule, 'connection' | 'every'>> {
  /** What `first` and `every` count. */
  readonly unit: 'connection' | 'frame' | 'bytes' | 'ms'
  readonly first: number
  /** 0 if it strikes only once. */
  readonly every: number
  /** The one connection it is for. */
  readonly only: number | undefined
  /** Its index in the script. */
  readonly index: number
}

/** A fault to apply to a connection. */
export type Fault = Pick<Rule, 'do' | 'direction'> &
  Partial<Pick<Rule, 'bytesPerSecond' | 'latencyMs' | 'jitterMs' | 'bits'>>

const count = { min: 1, whole: true } as const
const chance = { min: 0, max: 1 } as const
const duration = { min: 0, max: MAX_TIMER } as const

/** The range of each number, and the faults it is for if not all. */
const numbers: Readonly<
  Record<
    Exclude<keyof FaultRule, 'do' | 'at' | 'direction'>,
    { range: Parameters<typeof checkNumber>[2]; only?: readonly FaultKind[] }
  >
> = {
  connection: { range: count },
  frame: { range: count },
  afterBytes: { range: count },
  afterMs: { range: duration },
  every: { range: count },
  times: { range: { ...count, infinite: true } },
  probability: { range: chance },
  forMs: { range: duration, only: ['blackhole', 'drip', 'latency'] },
  bytesPerSecond: { range: { min: 0.001 }, only: ['drip'] },
  latencyMs: { range: duration, only: ['latency'] },
  jitterMs: { range: duration, only: ['latency'] },
  bits: { range: count, only: ['corrupt'] },
}

const names: OptionNames<FaultRule> = {
  do: true,
  connection: true,
  frame: true,
  at: true,
  afterBytes: true,
  afterMs: true,
  every: true,
  times: true,
  probability: true,
  direction: true,
  forMs: true,
  bytesPerSecond: true,
  latencyMs: true,
  jitterMs: true,
  bits: true,
}

const defaults = {
  at: 'start',
  frame: 0,
  afterBytes: 0,
  afterMs: 0,
  times: Number.POSITIVE_INFINITY,
  probability: 1,
  forMs: Number.POSITIVE_INFINITY,
  bytesPerSecond: Number.POSITIVE_INFINITY,
  latencyMs: 0,
  jitterMs: 0,
  bits: 1,
} as const

function checkWord<Word extends string>(
  field: string,
  value: unknown,
  words: readonly Word[],
): Word {
  if (words.includes(value as Word)) return value as Word
  throw new ValidationError(`${field} must be one of ${words.join(', ')}`)
}

/** One of the directions, or both. */
export const checkDirections = (field: string, value: unknown): Directions =>
  checkWord(field, value, ['up', 'down', 'both'])

function checkNumbers(field: string, given: FaultRule): void {
  for (const [name, { range, only }] of Object.entries(numbers)) {
    const value = given[name as keyof FaultRule]
    if (value === undefined) continue
    checkNumber(`${field}.${name}`, value, range)
    if (only?.includes(given.do) === false)
      throw new ValidationError(
        `${field}.${name} is not for ${given.do}, but for ${only.join(', ')}`,
      )
  }
  const required = { drip: 'bytesPerSecond', latency: 'latencyMs' } as const
  for (const [kind, name] of Object.entries(required)) {
    if (given.do === kind && given[name] === undefined)
      throw new ValidationError(`${field}.${name} is required for ${kind}`)
  }
}

/** Rejects a direction that would change nothing, or only a part of what it says. */
function checkDirection(
  field: string,
  { do: kind, direction, frame, afterBytes }: FaultRule,
): void {
  if (direction === undefined) return
  checkDirections(field, direction)
  if (kind === 'reset' && direction !== 'both' && afterBytes === undefined)
    throw new ValidationError(`${field} needs afterBytes: a reset always affects both`)
  if (kind !== 'corrupt') return
  if (frame !== undefined && direction !== 'down')
    throw new ValidationError(`${field} must be down: frames are those of the server`)
  if (afterBytes !== undefined && direction === 'both')
    throw new ValidationError(`${field} must be up or down: afterBytes counts one of them`)
}

/** The place of the first strike, and how it repeats. */
function placeOf(field: string, given: FaultRule): Pick<Rule, 'unit' | 'first' | 'every' | 'only'> {
  const { connection, frame, afterBytes, afterMs, at } = given
  const places = [
    { unit: 'frame', first: frame },
    { unit: 'bytes', first: afterBytes },
    { unit: 'ms', first: afterMs },
  ] as const
  const [place, ...others] = places.filter(({ first }) => first !== undefined)
  if (others.length > 0)
    throw new ValidationError(`${field} must have one of frame, afterBytes and afterMs, not more`)
  if (at !== undefined && frame === undefined)
    throw new ValidationError(`${field}.at needs a frame`)
  if (at !== undefined && given.do === 'corrupt')
    throw new ValidationError(`${field}.at is not for corrupt, which affects the whole payload`)
  if (place?.first !== undefined)
    return { unit: place.unit, first: place.first, every: given.every ?? 0, only: connection }
  const every = given.every ?? (connection === undefined ? 1 : 0)
  return { unit: 'connection', first: connection ?? every, every, only: undefined }
}

function checkRule(field: string, given: FaultRule, index: number, isSecure: boolean): Rule {
  if (given === undefined) throw new ValidationError(`${field} must be an object`)
  checkOptions(field, given, names)
  const kind = checkWord(`${field}.do`, given.do, kinds)
  checkNumbers(field, given)
  checkDirection(`${field}.direction`, given)
  if (given.at !== undefined) checkWord(`${field}.at`, given.at, ['start', 'middle', 'end'])
  if (isSecure && given.frame !== undefined)
    throw new ValidationError(`${field}.frame needs an upstream without TLS, which hides frames`)
  const direction = kind === 'half-close' || kind === 'corrupt' ? 'down' : 'both'
  const values = Object.entries(given).filter(([, value]) => value !== undefined)
  return {
    ...defaults,
    direction,
    ...(Object.fromEntries(values) as unknown as FaultRule),
    ...placeOf(field, given),
    index,
  }
}

/** Checks a script for an upstream with or without TLS, and fills in the defaults. */
export function checkScript(script: readonly FaultRule[], isSecure: boolean): readonly Rule[] {
  if (!Array.isArray(script)) throw new ValidationError('script must be an array of rules')
  // The array's own map would skip empty slots.
  return Array.from(script, (rule, index) => checkRule(`script[${index}]`, rule, index, isSecure))
}
