import { checkBoolean, checkNumber, checkOptions, MAX_TIMER } from '../../core/options.js'
import { checkDirection, type Direction } from './rules.js'

/** What slows a direction down or harms it. */
export interface Toxics {
  readonly latencyMs: number
  readonly jitterMs: number
  readonly bytesPerSecond: number
  readonly corruptRate: number
}

/** What is wrong with all connections of a proxy, now and to come. What is left out stays as it is. */
export interface ProxySettings {
  /** Delays what goes through, the end of a connection too, in ms; 0 ends it. */
  readonly latencyMs?: number
  /** Delays by so much more or less, in ms, at random and in order; 0 ends it. */
  readonly jitterMs?: number
  /** Lets so many bytes of each connection through in a second; `Infinity` ends it. */
  readonly bytesPerSecond?: number
  /** Flips a bit in that share of bytes, 0 to 1; 0 ends it. */
  readonly corruptRate?: number
  /**
   * The direction these are for.
   * @default 'both'
   */
  readonly direction?: Direction | 'both'
  /** Whether new connections are refused, as if nothing listened; open ones stay. */
  readonly refuse?: boolean
}

export const noToxics: Toxics = {
  latencyMs: 0,
  jitterMs: 0,
  bytesPerSecond: Number.POSITIVE_INFINITY,
  corruptRate: 0,
}

const duration = { min: 0, max: MAX_TIMER } as const

const rules: Readonly<Record<keyof Toxics, Parameters<typeof checkNumber>[2]>> = {
  latencyMs: duration,
  jitterMs: duration,
  bytesPerSecond: { min: 0.001, infinite: true },
  corruptRate: { min: 0, max: 1 },
}

/** Checks settings, and returns the toxics among them and their directions. */
export function checkSettings(given: ProxySettings): {
  toxics: Partial<Toxics>
  directions: readonly Direction[]
} {
  const names = Object.keys(rules) as (keyof Toxics)[]
  const settings = checkOptions('settings', given, [...names, 'direction', 'refuse'])
  if (settings.refuse !== undefined) checkBoolean('refuse', settings.refuse)
  const toxics = Object.fromEntries(
    names.flatMap(name => {
      const value = settings[name]
      return value === undefined ? [] : [[name, checkNumber(name, value, rules[name])]]
    }),
  )
  return {
    toxics,
    directions: directionsOf(checkDirection('direction', given.direction ?? 'both')),
  }
}

export const directionsOf = (direction: Direction | 'both'): readonly Direction[] =>
  direction === 'both' ? ['up', 'down'] : [direction]

/** What several toxics are together. */
export function sumToxics(all: Iterable<Partial<Toxics>>): Toxics {
  let { latencyMs, jitterMs, bytesPerSecond, corruptRate } = noToxics
  for (const toxics of all) {
    latencyMs += toxics.latencyMs ?? 0
    jitterMs += toxics.jitterMs ?? 0
    bytesPerSecond = Math.min(bytesPerSecond, toxics.bytesPerSecond ?? Number.POSITIVE_INFINITY)
    corruptRate = Math.max(corruptRate, toxics.corruptRate ?? 0)
  }
  return { latencyMs, jitterMs, bytesPerSecond, corruptRate }
}
