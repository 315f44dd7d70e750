import { ValidationError } from '../../core/errors.js'
import { checkNumber, checkOptions, MAX_TIMER } from '../../core/options.js'

/** From the client to the upstream, or back. */
export type Direction = 'up' | 'down'

const kinds = ['reset', 'half-close', 'blackhole', 'drip', 'latency', 'corrupt'] as const

/** A fault of a script, named as the method of the proxy that does the same. */
export type FaultKind = (typeof kinds)[number]

/**
 * One rule of a script: where it strikes, and what happens there. Without `frame`, `afterBytes` and `afterMs` it strikes
 * when the connection comes in, before the upstream is dialled. The same seed and the same script decide the same of the
 * same connections, frames and bytes.
 */
export interface FaultRule {
  /** What happens. */
  readonly do: FaultKind
  /**
   * The connection, by the order in which they came, from 1.
   * @default each of them
   */
  readonly connection?: number
  /**
   * The data frame of the server, from 1, of a WebSocket without TLS. Pings, pongs and closes are not counted: their
   * number is a matter of time.
   */
  readonly frame?: number
  /**
   * Whether it strikes before the frame's first byte, in the midst of its payload, or behind its last byte; not for
   * corrupt, which is of the whole payload.
   * @default 'start'
   */
  readonly at?: 'start' | 'middle' | 'end'
  /** After so many bytes of the fault's direction, of those of the server if it is both; heads of HTTP are counted. */
  readonly afterBytes?: number
  /** So many ms after the connection came in. */
  readonly afterMs?: number
  /**
   * Strikes again after each so many frames, bytes or ms more; if there are none of these, at each so manieth connection
   * from `connection` on.
   * @default once in a connection
   */
  readonly every?: number
  /**
   * The most times it strikes, in all connections together.
   * @default Infinity
   */
  readonly times?: number
  /**
   * The chance that it strikes where it could, 0 to 1.
   * @default 1
   */
  readonly probability?: number
  /**
   * The direction it is for. A reset is always of both: here it says whose bytes `afterBytes` counts. What corrupts a
   * frame is 'down', and behind so many bytes it is one of the two.
   * @default 'both' for blackhole, drip and latency, 'down' for half-close and corrupt
   */
  readonly direction?: Direction | 'both'
  /**
   * How long a blackhole, drip or latency lasts, in ms.
   * @default as long as the connection
   */
  readonly forMs?: number
  /** What a drip lets through. */
  readonly bytesPerSecond?: number
  /** By how much a latency delays, in ms. */
  readonly latencyMs?: number
  /**
   * By how much more or less, in ms, at random.
   * @default 0
   */
  readonly jitterMs?: number
  /**
   * How many bytes are corrupted, a bit of each: within the frame's payload, or else the next to come.
   * @default 1
   */
  readonly bits?: number
}

/** A rule with its defaults. */
export interface Rule extends Required<Omit<FaultRule, 'connection' | 'every'>> {
  /** What `first` and `every` count. */
  readonly unit: 'connection' | 'frame' | 'bytes' | 'ms'
  readonly first: number
  /** 0 if it strikes but once. */
  readonly every: number
  /** The one connection it is for. */
  readonly only: number | undefined
  /** Its place in the script. */
  readonly index: number
}

const counted = { min: 1, whole: true } as const
const chance = { min: 0, max: 1 } as const
const duration = { min: 0, max: MAX_TIMER } as const

/** What each field must be, and the faults that have it if not all do. */
const numbers: Readonly<
  Record<string, { rule: Parameters<typeof checkNumber>[2]; of?: readonly FaultKind[] }>
> = {
  connection: { rule: counted },
  frame: { rule: counted },
  afterBytes: { rule: counted },
  afterMs: { rule: duration },
  every: { rule: counted },
  times: { rule: { ...counted, infinite: true } },
  probability: { rule: chance },
  forMs: { rule: duration, of: ['blackhole', 'drip', 'latency'] },
  bytesPerSecond: { rule: { min: 0.001 }, of: ['drip'] },
  latencyMs: { rule: duration, of: ['latency'] },
  jitterMs: { rule: duration, of: ['latency'] },
  bits: { rule: counted, of: ['corrupt'] },
}

const names: readonly (keyof FaultRule)[] = [
  'do',
  'at',
  'direction',
  ...(Object.keys(numbers) as (keyof FaultRule)[]),
]

/** One of some words. */
export function checkWord<Word extends string>(
  field: string,
  value: unknown,
  words: readonly Word[],
): Word {
  if (words.includes(value as Word)) return value as Word
  throw new ValidationError(`${field} must be one of ${words.join(', ')}`)
}

export const checkDirection = (field: string, value: unknown): Direction | 'both' =>
  checkWord(field, value, ['up', 'down', 'both'])

function checkNumbers(field: string, given: FaultRule): void {
  for (const [name, { rule, of }] of Object.entries(numbers)) {
    const value = given[name as keyof FaultRule]
    if (value === undefined) continue
    checkNumber(`${field}.${name}`, value, rule)
    if (of?.includes(given.do) === false)
      throw new ValidationError(`${field}.${name} is not for ${given.do}, but for ${of.join(', ')}`)
  }
}

/** Refuses a direction that would change nothing, or not all that it says. */
function checkWay(field: string, { do: what, direction, frame, afterBytes }: FaultRule): void {
  if (direction === undefined) return
  const rule = `${field}.direction`
  checkDirection(rule, direction)
  if (what === 'reset' && direction !== 'both' && afterBytes === undefined)
    throw new ValidationError(`${rule} needs afterBytes: a reset is always of both`)
  if (what !== 'corrupt') return
  if (frame !== undefined && direction !== 'down')
    throw new ValidationError(`${rule} must be down: frames are those of the server`)
  if (afterBytes !== undefined && direction === 'both')
    throw new ValidationError(`${rule} must be up or down: afterBytes counts one of them`)
}

/** Where a rule strikes. */
function placeOf(field: string, given: FaultRule): Pick<Rule, 'unit' | 'first' | 'every' | 'only'> {
  const { connection, frame, afterBytes, afterMs } = given
  const places = [
    { unit: 'frame', first: frame },
    { unit: 'bytes', first: afterBytes },
    { unit: 'ms', first: afterMs },
  ] as const
  const [place, ...others] = places.filter(({ first }) => first !== undefined)
  if (others.length > 0)
    throw new ValidationError(`${field} must have one of frame, afterBytes and afterMs, not more`)
  if (given.at !== undefined && frame === undefined)
    throw new ValidationError(`${field}.at needs a frame`)
  if (given.at !== undefined && given.do === 'corrupt')
    throw new ValidationError(`${field}.at is not for corrupt, which is of the whole payload`)
  if (place?.first !== undefined)
    return { unit: place.unit, first: place.first, every: given.every ?? 0, only: connection }
  const every = given.every ?? (connection === undefined ? 1 : 0)
  return { unit: 'connection', first: connection ?? every, every, only: undefined }
}

function checkRule(field: string, given: FaultRule, index: number, isSecure: boolean): Rule {
  if (given === undefined) throw new ValidationError(`${field} must be an object`)
  checkOptions(field, given, names)
  const what = checkWord(`${field}.do`, given.do, kinds)
  checkNumbers(field, given)
  checkWay(field, given)
  if (isSecure && given.frame !== undefined)
    throw new ValidationError(`${field}.frame needs an upstream without TLS, which hides frames`)
  const isOneWay = what === 'half-close' || what === 'corrupt'
  for (const [kind, name] of [
    ['drip', 'bytesPerSecond'],
    ['latency', 'latencyMs'],
  ] as const) {
    if (what === kind && given[name] === undefined)
      throw new ValidationError(`${field}.${name} is required for ${kind}`)
  }
  const {
    at = 'start',
    direction = isOneWay ? 'down' : 'both',
    frame = 0,
    afterBytes = 0,
    afterMs = 0,
    times = Number.POSITIVE_INFINITY,
    probability = 1,
    forMs = Number.POSITIVE_INFINITY,
    bytesPerSecond = Number.POSITIVE_INFINITY,
    latencyMs = 0,
    jitterMs = 0,
    bits = 1,
  } = given
  return {
    do: what,
    at: checkWord(`${field}.at`, at, ['start', 'middle', 'end']),
    direction,
    ...{ frame, afterBytes, afterMs, times, probability, forMs },
    ...{ bytesPerSecond, latencyMs, jitterMs, bits },
    ...placeOf(field, given),
    index,
  }
}

/** Checks a script, for an upstream with or without TLS, and fills in the defaults. */
export function checkScript(script: readonly FaultRule[], isSecure: boolean): readonly Rule[] {
  if (!Array.isArray(script)) throw new ValidationError('script must be an array of rules')
  // An array's own map would pass over holes.
  return Array.from(script, (rule, index) => checkRule(`script[${index}]`, rule, index, isSecure))
}
