import {
  checkObject,
  MAX_TIMER,
  number,
  type Rule as OptionRule,
  oneOf,
  optional,
  readOptions,
  type Schema,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { seededRandom } from '../random.js'

/** `up` is from the client to the upstream, `down` is from the upstream to the client. */
export type Direction = 'up' | 'down'
export type Directions = Direction | 'both'

const kinds = ['reset', 'half-close', 'blackhole', 'drip', 'latency', 'corrupt'] as const

/** A fault of a script. If a method of the proxy causes the same fault, both have the same name. */
export type FaultKind = (typeof kinds)[number]

/**
 * One rule of a script: which fault it causes, and where. Without `frame`, `afterBytes` and
 * `afterMs`, the rule strikes when the connection is accepted, before the upstream is connected.
 * The same seed and script make the same decisions for the same connections, frames and bytes.
 */
export interface FaultRule {
  /** The fault to cause. */
  readonly do: FaultKind
  /** The connection's number in the order of arrival, from 1. @default every connection */
  readonly connection?: number
  /**
   * The number of the server's data frame, counted from 1. Only for a WebSocket without TLS. Pings,
   * pongs and closes are not counted, because their number depends on timing.
   */
  readonly frame?: number
  /**
   * Whether the rule strikes before the frame's first byte, in the middle of its payload, or after
   * its last byte. Not for corrupt, which affects the whole payload. @default 'start'
   */
  readonly at?: 'start' | 'middle' | 'end'
  /**
   * Strikes after this many bytes of the direction, HTTP heads included. If the direction is
   * `both`, only the server's bytes count.
   */
  readonly afterBytes?: number
  /** Strikes this many ms after the connection was accepted. */
  readonly afterMs?: number
  /**
   * N: strikes again after every N further frames, bytes or ms. A rule without `frame`,
   * `afterBytes` and `afterMs` strikes at every Nth connection, from `connection` on. @default once
   * in a connection
   */
  readonly every?: number
  /** How often the rule strikes at most, counted over all connections. @default Infinity */
  readonly times?: number
  /** The chance that the rule strikes when it is due, 0 to 1. @default 1 */
  readonly probability?: number
  /**
   * The direction that the fault affects. A reset always affects both: its direction only says
   * which bytes `afterBytes` counts. The direction of a corrupt rule with `frame` is 'down'. With
   * `afterBytes`, it is 'up' or 'down'. @default 'both' for blackhole, drip and latency, 'down' for
   * half-close and corrupt
   */
  readonly direction?: Directions
  /** How long a blackhole, drip or latency lasts, in ms. @default as long as the connection */
  readonly forMs?: number
  /** The rate of a drip, in bytes per second. */
  readonly bytesPerSecond?: number
  /** The delay of a latency, in ms. */
  readonly latencyMs?: number
  /** Varies the delay at random by up to this many ms. @default 0 */
  readonly jitterMs?: number
  /**
   * In how many bytes one bit flips. With `frame`, these are bytes of the frame's payload; without
   * it, the next bytes. @default 1
   */
  readonly bits?: number
}

/** A checked rule, with its defaults. */
export interface Rule
  extends Required<Omit<FaultRule, 'connection' | 'frame' | 'afterBytes' | 'afterMs' | 'every'>> {
  /** The unit of `first` and `every`. */
  readonly unit: 'connection' | 'frame' | 'bytes' | 'ms'
  readonly first: number
  /** 0 if the strikes do not repeat. */
  readonly every: number
  /**
   * The only connection that the rule applies to. Undefined if the unit is `connection`, or if the
   * rule applies to every connection.
   */
  readonly only: number | undefined
  /** The rule's index in the script. */
  readonly index: number
}

/** A fault to apply to a connection. */
export type Fault = Pick<Rule, 'do' | 'direction'> &
  Partial<Pick<Rule, 'bytesPerSecond' | 'latencyMs' | 'jitterMs' | 'bits'>>

/** Checks an option that is a direction. */
export const checkDirections: OptionRule<Directions> = oneOf('up', 'down', 'both')

const count = { min: 1, whole: true }
const duration = { min: 0, max: MAX_TIMER }
const lasting = { ...duration, infinite: true }
const schema = {
  do: oneOf(...kinds),
  connection: optional(number(count)),
  frame: optional(number(count)),
  at: optional(oneOf('start', 'middle', 'end')),
  afterBytes: optional(number(count)),
  afterMs: optional(number(duration)),
  every: optional(number(count)),
  times: withDefault(Number.POSITIVE_INFINITY, number({ ...count, infinite: true })),
  probability: withDefault(1, number({ min: 0, max: 1 })),
  direction: optional(checkDirections),
  forMs: withDefault(Number.POSITIVE_INFINITY, number(lasting)),
  bytesPerSecond: withDefault(Number.POSITIVE_INFINITY, number({ min: 0.001, infinite: true })),
  latencyMs: optional(number(duration)),
  jitterMs: withDefault(0, number(duration)),
  bits: withDefault(1, number(count)),
} satisfies Schema<FaultRule>

/** For each field that only some faults accept: these faults. */
const only = {
  forMs: ['blackhole', 'drip', 'latency'],
  bytesPerSecond: ['drip'],
  latencyMs: ['latency'],
  jitterMs: ['latency'],
  bits: ['corrupt'],
} as const satisfies { readonly [Name in keyof FaultRule]?: readonly FaultKind[] }

/** For each fault that needs a field: this field. */
const required = { drip: 'bytesPerSecond', latency: 'latencyMs' } as const

function checkFields(field: string, given: FaultRule): void {
  for (const [name, faults] of Object.entries<readonly FaultKind[]>(only))
    if (given[name as keyof typeof only] !== undefined && !faults.includes(given.do))
      throw new ValidationError(
        `${field}.${name} is not for ${given.do}, but for ${faults.join(', ')}`,
      )
  for (const [kind, name] of Object.entries(required))
    if (given.do === kind && given[name] === undefined)
      throw new ValidationError(`${field}.${name} is required for ${kind}`)
}

/** Rejects a direction without effect, and one of which only a part would have an effect. */
function checkDirection(
  field: string,
  { do: kind, direction, frame, afterBytes }: FaultRule,
): void {
  if (direction === undefined) return
  if (kind === 'reset' && direction !== 'both' && afterBytes === undefined)
    throw new ValidationError(`${field} needs afterBytes: a reset always affects both`)
  if (kind !== 'corrupt') return
  if (frame !== undefined && direction !== 'down')
    throw new ValidationError(`${field} must be down: frames are those of the server`)
  if (afterBytes !== undefined && direction === 'both')
    throw new ValidationError(`${field} must be up or down: afterBytes counts one of them`)
}

/** Finds the place of a rule's first strike, and how the strikes repeat. */
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
  const rule = readOptions(field, checkObject(field, given), schema, `${field}.`)
  checkFields(field, given)
  checkDirection(`${field}.direction`, given)
  if (isSecure && given.frame !== undefined)
    throw new ValidationError(`${field}.frame needs an upstream without TLS, which hides frames`)
  const usual = rule.do === 'half-close' || rule.do === 'corrupt' ? 'down' : 'both'
  const { at = 'start', latencyMs = 0, direction = usual } = rule
  return { ...rule, at, latencyMs, direction, ...placeOf(field, given), index }
}

/** Checks a script for an upstream with or without TLS, and fills in the defaults. */
export function checkScript(script: readonly FaultRule[], isSecure: boolean): readonly Rule[] {
  if (!Array.isArray(script)) throw new ValidationError('script must be an array of rules')
  // The array's own map would skip empty slots.
  return Array.from(script, (rule, index) => checkRule(`script[${index}]`, rule, index, isSecure))
}

/** A rule that is due. */
export interface Strike {
  readonly rule: Rule
  /** The frame that the rule strikes, or the last frame that had begun. */
  readonly frame: number
}

/**
 * Decides which rules strike a connection, and where. Ask about each place only once, and in order.
 */
export interface ConnectionScript {
  readonly opening: () => Rule[]
  readonly frame: (number: number) => Rule[]
  /** The rules that strike after more than `from` and at most `to` bytes of a direction. */
  readonly bytes: (direction: Direction, from: number, to: number) => { at: number; rule: Rule }[]
  readonly timed: readonly Rule[]
  /**
   * Decides whether a rule that is due strikes, by its `probability` and the `times` that are left.
   */
  readonly decide: (rule: Rule) => boolean
}

/** The first place after `last` where a rule may strike; undefined if there is none. */
export function nextPlace({ first, every }: Rule, last: number): number | undefined {
  if (last < first) return first
  return every > 0 ? first + (Math.floor((last - first) / every) + 1) * every : undefined
}

/**
 * Makes the decisions of a script. Each rule draws its own random numbers per connection; `times`
 * counts across connections.
 */
export function createScript(
  rules: readonly Rule[],
  seed: number,
): (connection: number) => ConnectionScript {
  const left = rules.map(({ times }) => times)

  return function forConnection(connection) {
    const chances = new Map<Rule, () => number>()
    const applicable = rules.filter(({ only = connection }) => only === connection)
    const rulesBy = (unit: Rule['unit']): Rule[] => applicable.filter(rule => rule.unit === unit)
    const byFrame = rulesBy('frame')
    const byBytes = rulesBy('bytes')

    function chanceOf(rule: Rule): number {
      const chance =
        chances.get(rule) ?? seededRandom(seed, `rule ${rule.index} connection ${connection}`)
      chances.set(rule, chance)
      return chance()
    }

    function decide(rule: Rule): boolean {
      const remaining = left[rule.index] as number
      if (remaining <= 0) return false
      if (rule.probability < 1 && chanceOf(rule) >= rule.probability) return false
      left[rule.index] = remaining - 1
      return true
    }

    const strikesAt = (place: number) => (rule: Rule) =>
      nextPlace(rule, place - 1) === place && decide(rule)

    return {
      opening: () => rulesBy('connection').filter(strikesAt(connection)),
      frame: number => byFrame.filter(strikesAt(number)),
      bytes(direction, from, to) {
        const strikes: { at: number; rule: Rule }[] = []
        for (const rule of byBytes) {
          if ((rule.direction === 'up') !== (direction === 'up')) continue
          let at = nextPlace(rule, from)
          for (; at !== undefined && at <= to; at = nextPlace(rule, at))
            if (decide(rule)) strikes.push({ at, rule })
        }
        return strikes
      },
      timed: rulesBy('ms'),
      decide,
    }
  }
}
