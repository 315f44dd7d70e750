import type { NatsConnection } from '@nats-io/transport-node'
import type { Log } from 'sluice/core'
import { checkNumber, checkOptions, type OptionNames, ValidationError } from 'sluice/core'
import { checkObject } from 'sluice/internal'
import type { NatsWireOptions } from '../wire.js'
import type { GatewayTokens } from './tokens.js'

/** What a gateway serves, where, and to whom. */
export interface GatewayOptions
  extends Pick<NatsWireOptions, 'stream' | 'prefix' | 'maxPublishDelay'> {
  /** A connection of NATS; the gateway does not close it. */
  readonly connection: NatsConnection
  /** Who may ask, by names; or the path of a JSON file of these, which may be changed while the gateway runs. */
  readonly tokens: GatewayTokens | string
  /** The origins whose pages may ask, such as `https://app.example`; `*` is every one. @default none, and so no page */
  readonly origins?: readonly string[]
  /** @default 0, any free one */
  readonly port?: number
  /** @default '127.0.0.1' */
  readonly host?: string
  /** Certificate and key for TLS, in PEM. @default none: for loopback, or behind a proxy that has them */
  readonly tls?: GatewayTLS
  /** What clients may have. */
  readonly limits?: GatewayLimits
  /** Receives the gateway's log. No line holds a token. */
  readonly log?: Log
}

/** What a gateway shows to those that connect over TLS. */
export interface GatewayTLS {
  /** The certificate, with those between it and its authority. */
  readonly cert: string | Uint8Array
  /** Its private key. */
  readonly key: string | Uint8Array
}

/** The bounds of a gateway. */
export interface GatewayLimits {
  /** Streams of all clients. @default 1000 */
  readonly connections?: number
  /** Streams of one token. @default 100 */
  readonly connectionsPerToken?: number
  /** Feeds of one stream, and of one bulk request. @default 200 */
  readonly feedsPerConnection?: number
  /** Bytes that wait to be read by one stream, before it is closed as too slow. @default 1048576 */
  readonly bufferedBytes?: number
  /** Requests of all clients at once. @default 64 */
  readonly requests?: number
  /** Requests of one token at once. @default 16 */
  readonly requestsPerToken?: number
}

export const optionNames: OptionNames<GatewayOptions> = {
  connection: true,
  stream: true,
  prefix: true,
  maxPublishDelay: true,
  tokens: true,
  origins: true,
  port: true,
  host: true,
  tls: true,
  limits: true,
  log: true,
}

const limitNames: OptionNames<GatewayLimits> = {
  connections: true,
  connectionsPerToken: true,
  feedsPerConnection: true,
  bufferedBytes: true,
  requests: true,
  requestsPerToken: true,
}

const tlsNames: OptionNames<GatewayTLS> = { cert: true, key: true }

const defaults: Required<GatewayLimits> = {
  connections: 1000,
  connectionsPerToken: 100,
  feedsPerConnection: 200,
  bufferedBytes: 1_048_576,
  requests: 64,
  requestsPerToken: 16,
}

/** The bounds, each at least 1. */
export function checkLimits(given: GatewayLimits | undefined): Required<GatewayLimits> {
  const limits = { ...defaults, ...checkOptions('limits', given, limitNames) }
  for (const [name, value] of Object.entries(limits))
    checkNumber(`limits.${name}`, value, { min: 1, whole: true })
  return limits
}

export function checkTLS(given: GatewayTLS): { readonly cert: Buffer; readonly key: Buffer } {
  const { cert, key } = checkOptions('tls', checkObject('tls', given), tlsNames)
  return { cert: checkPEM('tls.cert', cert), key: checkPEM('tls.key', key) }
}

function checkPEM(field: string, value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value ?? '')
  if (!bytes.includes('-----BEGIN ')) throw new ValidationError(`${field} must be in PEM`)
  return bytes
}
