import {
  checkNumber,
  checkOptions,
  checkText,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import { checkURL } from 'sluice/internal'
import { checkScript, type FaultRule, type Rule } from './rules.js'

/** The options of `startFaultProxy`. */
export interface FaultProxyOptions {
  /** The server behind the proxy: a URL, of which host and port count, or `{ host, port }`. */
  readonly upstream:
    | string
    | {
        /** A name or an address. */
        readonly host: string
        /** 1 to 65535. */
        readonly port: number
      }
  /** The port it listens on; 0 is any free one. @default 0 */
  readonly port?: number
  /** Seeds everything random; a whole number. @default 1 */
  readonly seed?: number
  /** The faults that happen by themselves. */
  readonly script?: readonly FaultRule[]
  /** How many of the latest events the log retains. @default 10000 */
  readonly logLimit?: number
}

const names: OptionNames<FaultProxyOptions> = {
  upstream: true,
  port: true,
  seed: true,
  script: true,
  logLimit: true,
}

/** The checked options, with their defaults. */
export interface FaultProxySettings
  extends Required<Omit<FaultProxyOptions, 'upstream' | 'script'>> {
  readonly upstream: { readonly host: string; readonly port: number }
  /** Whether clients speak TLS. */
  readonly isSecure: boolean
  readonly script: readonly Rule[]
}

const schemes = ['http:', 'https:', 'ws:', 'wss:'] as const
const portRule = { min: 1, max: 65_535, whole: true } as const

function checkUpstream(
  upstream: FaultProxyOptions['upstream'],
): Pick<FaultProxySettings, 'upstream' | 'isSecure'> {
  if (typeof upstream === 'object' && upstream !== null) {
    const { host, port } = checkOptions('upstream', upstream, { host: true, port: true })
    return {
      upstream: {
        host: checkText('upstream.host', host),
        port: checkNumber('upstream.port', port, portRule),
      },
      isSecure: false,
    }
  }
  // URL would parse the host of `localhost:80` as a scheme.
  if (typeof upstream === 'string' && !upstream.includes('://'))
    throw new ValidationError(
      'upstream must be a URL with its scheme, as http://localhost:80, or { host, port }',
    )
  const { hostname, port, protocol } = new URL(checkURL('upstream', upstream, schemes))
  const isSecure = protocol === 'https:' || protocol === 'wss:'
  const host = hostname.replace(/^\[|\]$/g, '')
  return { upstream: { host, port: Number(port) || (isSecure ? 443 : 80) }, isSecure }
}

/** Checks the options and fills in the defaults. */
export function checkFaultProxyOptions(options: FaultProxyOptions): FaultProxySettings {
  const {
    upstream,
    port = 0,
    seed = 1,
    script = [],
    logLimit = 10_000,
  } = checkOptions('startFaultProxy', options, names)
  const target = checkUpstream(upstream)
  return {
    ...target,
    port: checkNumber('port', port, { ...portRule, min: 0 }),
    seed: checkNumber('seed', seed, { min: Number.MIN_SAFE_INTEGER, whole: true }),
    script: checkScript(script, target.isSecure),
    logLimit: checkNumber('logLimit', logLimit, { min: 1, whole: true }),
  }
}
