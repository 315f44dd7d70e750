import { ValidationError } from 'sluice/core'
import type { LogOptions } from '../service/nats.js'
import type { ServiceOptions } from '../service/service.js'
import type { SignerOptions } from '../service/signers.js'

/** The options of `sluice relay`. */
export interface RelayCommandOptions extends ServiceOptions, SignerOptions, LogOptions {
  readonly feeds?: string
  readonly name?: string
  readonly create?: boolean
  readonly replicas?: number
  readonly maxAge?: number
  readonly maxBytes?: number
  /** False with `--no-ha`. */
  readonly ha: boolean
  readonly gateway?: number
  readonly tokens?: string
  readonly host?: string
  readonly allowOrigin: readonly string[]
  readonly gatewayCert?: string
  readonly gatewayKey?: string
  readonly maxConnections?: number
  readonly maxConnectionsPerToken?: number
}

type Name = keyof RelayCommandOptions

/** Options that mean nothing without another. */
const dependent: readonly (readonly [need: Name, ...names: Name[]])[] = [
  ['create', 'replicas', 'maxAge', 'maxBytes'],
  ['feeds', 'create', 'name', 'ha', 'signers', 'f', 'onchain', 'verifier'],
  [
    'gateway',
    'tokens',
    'host',
    'allowOrigin',
    'gatewayCert',
    'gatewayKey',
    'maxConnections',
    'maxConnectionsPerToken',
  ],
]

function isGiven(options: RelayCommandOptions, name: Name): boolean {
  const value = options[name]
  // High availability is the default, so `--no-ha` is the option that was given.
  if (name === 'ha') return value === false
  return Array.isArray(value) ? value.length > 0 : value !== undefined
}

/** The option as it is written. */
function shown(name: Name): string {
  if (name === 'ha') return '--no-ha'
  return `--${name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`
}

/** Throws where an option is given without the one that it needs. */
export function checkTogether(options: RelayCommandOptions): void {
  for (const [need, ...names] of dependent) {
    const without = isGiven(options, need) ? undefined : names.find(name => isGiven(options, name))
    if (without !== undefined) throw new ValidationError(`${shown(without)} needs ${shown(need)}`)
  }
  if (!isGiven(options, 'feeds') && !isGiven(options, 'gateway'))
    throw new ValidationError('--feeds, --gateway or both must be given')
  if (isGiven(options, 'gateway') && !isGiven(options, 'tokens'))
    throw new ValidationError('--gateway needs --tokens')
  if (isGiven(options, 'gatewayCert') !== isGiven(options, 'gatewayKey'))
    throw new ValidationError('--gateway-cert and --gateway-key must be given together')
}
