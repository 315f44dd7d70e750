import { checkBoolean, checkNumber, checkOptions, MAX_TIMER, type OptionNames } from 'sluice/core'
import { checkDirections, type Direction, type Directions } from './rules.js'

/** The delays, limits and corruption of a direction. */
export interface Toxics {
  readonly latencyMs: number
  readonly jitterMs: number
  readonly bytesPerSecond: number
  readonly corruptRate: number
}

/** Settings for all connections of a proxy, open and to come. Those left out stay as they are. */
export interface ProxySettings {
  /** Delays bytes and the end of a connection, in ms; 0 turns it off. */
  readonly latencyMs?: number
  /** Varies the delay at random by up to this many ms, in order; 0 turns it off. */
  readonly jitterMs?: number
  /** Limits the bytes of each connection per second; `Infinity` turns it off. */
  readonly bytesPerSecond?: number
  /** Flips a bit in this share of bytes, 0 to 1; 0 turns it off. */
  readonly corruptRate?: number
  /** The direction these are for. @default 'both' */
  readonly direction?: Directions
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

const ranges: Readonly<Record<keyof Toxics, Parameters<typeof checkNumber>[2]>> = {
  latencyMs: duration,
  jitterMs: duration,
  bytesPerSecond: { min: 0.001, infinite: true },
  corruptRate: { min: 0, max: 1 },
}
const names = Object.keys(ranges) as (keyof Toxics)[]
const settingNames: OptionNames<ProxySettings> = {
  latencyMs: true,
  jitterMs: true,
  bytesPerSecond: true,
  corruptRate: true,
  direction: true,
  refuse: true,
}

/** Checks settings; returns the toxics among them. */
export function checkSettings(given: ProxySettings): Partial<Toxics> {
  const settings = checkOptions('settings', given, settingNames)
  if (settings.refuse !== undefined) checkBoolean('refuse', settings.refuse)
  checkDirections('direction', given.direction ?? 'both')
  const present = names.filter(name => settings[name] !== undefined)
  return Object.fromEntries(
    present.map(name => [name, checkNumber(name, settings[name], ranges[name])]),
  )
}

export const directionsOf = (directions: Directions): readonly Direction[] =>
  directions === 'both' ? ['up', 'down'] : [directions]

/** The combined effect of several toxics. */
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
