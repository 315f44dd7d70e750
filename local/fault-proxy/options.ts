import { ValidationError } from '../../core/errors.js'
import { checkNumber, checkOptions, checkText, checkURL } from '../../core/options.js'
import { checkScript, type FaultRule, type Rule } from './rules.js'

/** How to start a fault proxy. */
export interface FaultProxyOptions {
  /** What it stands in front of: a URL, of which host and port count, or these two. */
  readonly upstream: string | { readonly host: string; readonly port: number }
  /**
   * The port it listens on; 0 is any free one.
   * @default 0
   */
  readonly port?: number
  /**
   * What everything random depends on: a whole number.
   * @default 1
   */
  readonly seed?: number
  /** What goes wrong by itself. */
  readonly script?: readonly FaultRule[]
  /**
   * How many events the log keeps, the latest.
   * @default 10000
   */
  readonly logLimit?: number
}

/** The options with their defaults. */
export interface FaultProxySettings {
  readonly upstream: { readonly host: string; readonly port: number }
  /** Whether its clients are to speak TLS. */
  readonly isSecure: boolean
  readonly port: number
  readonly seed: number
  readonly script: readonly Rule[]
  readonly logLimit: number
}

const schemes = ['http:', 'https:', 'ws:', 'wss:'] as const
const portRule = { min: 1, max: 65_535, whole: true } as const

function checkUpstream(
  upstream: FaultProxyOptions['upstream'],
): Pick<FaultProxySettings, 'upstream' | 'isSecure'> {
  if (typeof upstream === 'object' && upstream !== null) {
    const { host, port } = checkOptions('upstream', upstream, ['host', 'port'])
    return {
      upstream: {
        host: checkText('upstream.host', host),
        port: checkNumber('upstream.port', port, portRule),
      },
      isSecure: false,
    }
  }
  // Without a scheme, the host of `localhost:80` would be taken for one.
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
  const names = ['upstream', 'port', 'seed', 'script', 'logLimit'] as const
  const {
    upstream,
    port = 0,
    seed = 1,
    script = [],
    logLimit = 10_000,
  } = checkOptions('options', options, names)
  const target = checkUpstream(upstream)
  return {
    ...target,
    port: checkNumber('port', port, { ...portRule, min: 0 }),
    seed: checkNumber('seed', seed, { min: Number.MIN_SAFE_INTEGER, whole: true }),
    script: checkScript(script, target.isSecure),
    logLimit: checkNumber('logLimit', logLimit, { min: 1, whole: true }),
  }
}
