import {
  checkBoolean,
  checkNumber,
  checkOptions,
  checkText,
  MAX_TIMER,
  number,
  optional,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { checkURL } from 'sluice/internal'
import {
  checkDirections,
  checkScript,
  type Direction,
  type Directions,
  type FaultRule,
  type Rule,
} from './rules.js'

/** The options of `startFaultProxy`. */
export interface FaultProxyOptions {
  /**
   * The server behind the proxy: `{ host, port }`, or a URL. Only the scheme, the host and the port
   * of a URL matter.
   */
  readonly upstream:
    | string
    | {
        /** A host name or an IP address. */
        readonly host: string
        /** The port, 1 to 65535. */
        readonly port: number
      }
  /** The port that the proxy listens on. 0 picks any free port. @default 0 */
  readonly port?: number
  /** Seeds all random decisions. It must be a whole number. @default 1 */
  readonly seed?: number
  /** The rules for faults that happen automatically. */
  readonly script?: readonly FaultRule[]
  /** How many of the latest events the log retains. @default 10000 */
  readonly logLimit?: number
}

/** The server behind a proxy. */
export interface Upstream {
  readonly host: string
  readonly port: number
  /** Whether clients speak TLS. */
  readonly isSecure: boolean
}

/** The checked options, with their defaults. */
export interface FaultProxySettings
  extends Required<Omit<FaultProxyOptions, 'upstream' | 'script'>> {
  readonly upstream: Upstream
  readonly script: readonly Rule[]
}

const schemes = ['http:', 'https:', 'ws:', 'wss:'] as const
const portRule = { min: 1, max: 65_535, whole: true }
const schema = {
  upstream: checkUpstream,
  port: withDefault(0, number({ ...portRule, min: 0 })),
  seed: withDefault(1, number({ min: Number.MIN_SAFE_INTEGER, whole: true })),
  script: unchecked<readonly FaultRule[] | undefined>,
  logLimit: withDefault(10_000, number({ min: 1, whole: true })),
} satisfies Schema<FaultProxyOptions>

function checkUpstream(field: string, upstream: unknown): Upstream {
  if (typeof upstream === 'object' && upstream !== null) {
    const { host, port } = checkOptions<{ host?: string; port?: number }>(field, upstream, {
      host: true,
      port: true,
    })
    return {
      host: checkText('upstream.host', host),
      port: checkNumber('upstream.port', port, portRule),
      isSecure: false,
    }
  }
  // URL would parse the host of `localhost:80` as a scheme.
  if (typeof upstream === 'string' && !upstream.includes('://'))
    throw new ValidationError(
      'upstream must be a URL with its scheme, as http://localhost:80, or { host, port }',
    )
  const { hostname, port, protocol } = new URL(checkURL(field, upstream as string, schemes))
  const isSecure = protocol === 'https:' || protocol === 'wss:'
  const host = hostname.replace(/^\[|\]$/g, '')
  return { host, port: Number(port) || (isSecure ? 443 : 80), isSecure }
}

/** Checks the options and fills in the defaults. */
export function checkFaultProxyOptions(options: FaultProxyOptions): FaultProxySettings {
  const { script = [], ...settings } = readOptions('startFaultProxy', options, schema)
  return { ...settings, script: checkScript(script, settings.upstream.isSecure) }
}

/** The delays, limits and corruption of a direction. */
export interface Toxics {
  readonly latencyMs: number
  readonly jitterMs: number
  readonly bytesPerSecond: number
  readonly corruptRate: number
}

/**
 * Settings for all connections of a proxy, current and future. A setting that is left out stays as
 * it is.
 */
export interface ProxySettings {
  /** Delays bytes and the end of a connection by this many ms. 0 turns the delay off. */
  readonly latencyMs?: number
  /** Varies the delay at random by up to this many ms. Bytes keep their order. 0 turns this off. */
  readonly jitterMs?: number
  /** Limits the bytes per second of each connection. `Infinity` turns the limit off. */
  readonly bytesPerSecond?: number
  /** Flips a bit in this share of bytes, 0 to 1. 0 turns this off. */
  readonly corruptRate?: number
  /** The direction that the delays, limits and corruption apply to. @default 'both' */
  readonly direction?: Directions
  /** Whether new connections are refused, as if nothing listened. Open connections stay open. */
  readonly refuse?: boolean
}

export const noToxics: Toxics = {
  latencyMs: 0,
  jitterMs: 0,
  bytesPerSecond: Number.POSITIVE_INFINITY,
  corruptRate: 0,
}

const duration = { min: 0, max: MAX_TIMER }
const settingSchema = {
  latencyMs: optional(number(duration)),
  jitterMs: optional(number(duration)),
  bytesPerSecond: optional(number({ min: 0.001, infinite: true })),
  corruptRate: optional(number({ min: 0, max: 1 })),
  direction: withDefault('both', checkDirections),
  refuse: optional(checkBoolean),
} satisfies Schema<ProxySettings>

/** Checks settings, and fills in the direction. */
export function checkSettings(
  given: ProxySettings,
): ProxySettings & { readonly direction: Directions } {
  return readOptions('settings', given, settingSchema)
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
