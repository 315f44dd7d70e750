import type { IncomingMessage } from 'node:http'
import type { NatsConnection } from '@nats-io/transport-node'
import {
  checkFunction,
  checkText,
  type Log,
  number,
  optional,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { checkObject, HTTPError } from 'sluice/internal'
import { checkConnection } from '../log.js'
import { checkName, checkPrefix } from '../subjects.js'
import type { NatsWireOptions } from '../wire.js'
import type { Authorize } from './authorize.js'
import { checkJWT, type GatewayJWT, type JWTSettings } from './jwt.js'
import type { GatewayTokens } from './tokens.js'

/** The options of `createGateway`. */
export interface GatewayOptions extends Pick<NatsWireOptions, 'stream' | 'prefix'> {
  /** A NATS connection. The gateway does not close it. */
  readonly connection: NatsConnection
  /**
   * The accepted tokens, by the names of their holders; or the path of a JSON file of tokens. The
   * file may be changed while the gateway runs. Needed unless there is `jwt` or `authorize`.
   * @default none
   */
  readonly tokens?: GatewayTokens | string
  /**
   * The issuer of JWTs, which are accepted in addition to `tokens`. Needs the package jose.
   * @default no JWT
   */
  readonly jwt?: GatewayJWT
  /**
   * Finds the holder of a token that is not one of `tokens`, and that is no JWT if there is `jwt`.
   * It may look in a database, or ask another service. It has five seconds to answer.
   * @default no other tokens
   */
  readonly authorize?: Authorize
  /**
   * How many seconds an answer of `authorize` counts, or a JWT that was verified. A token that was
   * withdrawn, or whose key was, is accepted for this long. @default 60
   */
  readonly authorizedFor?: number
  /**
   * The web origins whose pages may send requests, such as `https://app.example`. `*` allows every
   * origin. @default none, and so no page
   */
  readonly origins?: readonly string[]
  /**
   * How many seconds after its observation a report may be published to the log. Requests for
   * missing reports search the log up to this delay. @default 900
   */
  readonly maxPublishDelay?: number
  /** The port to listen on. 0 picks any free port. @default 0 */
  readonly port?: number
  /** The IP address or host name to listen on. @default '127.0.0.1' */
  readonly host?: string
  /**
   * The certificate and the key for TLS, in PEM. Not needed for loopback, or behind a proxy that
   * handles TLS. @default none: for loopback, or behind a proxy that has them
   */
  readonly tls?: GatewayTLS
  /** The limits for clients. */
  readonly limits?: GatewayLimits
  /** Receives the gateway's log lines. No line contains a token. */
  readonly log?: Log
}

/** The certificate and the key of a gateway, for TLS. */
export interface GatewayTLS {
  /** The certificate, together with the intermediate certificates up to its authority. */
  readonly cert: string | Uint8Array
  /** The private key of the certificate. */
  readonly key: string | Uint8Array
}

/** The limits of a gateway. */
export interface GatewayLimits {
  /** How many streams all clients together may have. @default 1000 */
  readonly connections?: number
  /** How many streams one token may have, if the token does not say. @default 100 */
  readonly connectionsPerToken?: number
  /** How many feeds one stream or one bulk request may have. @default 200 */
  readonly feedsPerConnection?: number
  /**
   * How many bytes may wait to be sent on one stream. If there are more, the stream is closed as
   * too slow. @default 1048576
   */
  readonly bufferedBytes?: number
  /** How many requests all clients together may have open at once. @default 64 */
  readonly requests?: number
  /** How many requests one token may have open at once. @default 16 */
  readonly requestsPerToken?: number
  /**
   * How many reports the open requests of one token may ask for together. A report takes about
   * 2 KB. A request that is the only one of its token may ask for more. @default 4000
   */
  readonly reportsPerToken?: number
  /**
   * How many messages of the log the requests of one token may read per second, and those of all
   * tokens together that read much. A page of 1000 reports reads about 1020. @default 2000
   */
  readonly readsPerSecond?: number
}

const count = number({ min: 1, whole: true })
const limitSchema = {
  connections: withDefault(1000, count),
  connectionsPerToken: withDefault(100, count),
  feedsPerConnection: withDefault(200, count),
  bufferedBytes: withDefault(1_048_576, count),
  requests: withDefault(64, count),
  requestsPerToken: withDefault(16, count),
  reportsPerToken: withDefault(4000, count),
  readsPerSecond: withDefault(2000, count),
} satisfies Schema<GatewayLimits>

const schema = {
  connection: (_field, value) => checkConnection(value),
  stream: optional(checkName),
  prefix: optional(checkPrefix),
  maxPublishDelay: withDefault(900, number({ min: 0 })),
  tokens: unchecked<GatewayTokens | string | undefined>,
  jwt: optional(checkJWT),
  authorize: optional((field, value) => checkFunction(field, value) as Authorize),
  authorizedFor: withDefault(60, number({ min: 1, max: 3600 })),
  origins: withDefault([], checkOrigins),
  port: withDefault(0, number({ min: 0, max: 65_535, whole: true })),
  host: withDefault('127.0.0.1', checkText),
  tls: optional(checkTLS),
  limits: checkLimits,
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<GatewayOptions>

/** The checked options, with their defaults. */
export interface GatewaySettings
  extends Required<
      Pick<
        GatewayOptions,
        'connection' | 'authorizedFor' | 'port' | 'host' | 'log' | 'maxPublishDelay'
      >
    >,
    Pick<GatewayOptions, 'stream' | 'prefix' | 'tokens' | 'authorize'> {
  readonly jwt?: JWTSettings
  readonly origins: readonly string[]
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer }
  readonly limits: Required<GatewayLimits>
}

/** Checks the options of a gateway, and fills in the defaults. */
export function checkGatewayOptions(given: GatewayOptions): GatewaySettings {
  const settings = readOptions('createGateway', given, schema)
  const { tokens, jwt, authorize } = settings
  if (tokens === undefined && jwt === undefined && authorize === undefined)
    throw new ValidationError('tokens, jwt or authorize must be given')
  return settings
}

function checkLimits(field: string, value: unknown): Required<GatewayLimits> {
  return readOptions(field, value as GatewayLimits | undefined, limitSchema, `${field}.`)
}

function checkTLS(field: string, value: unknown): { readonly cert: Buffer; readonly key: Buffer } {
  const given = checkObject(field, value as GatewayTLS)
  return readOptions(field, given, { cert: checkPEM, key: checkPEM }, `${field}.`)
}

function checkPEM(field: string, value: unknown): Buffer {
  const bytes = Buffer.from((value as string | Uint8Array | undefined) ?? '')
  if (!bytes.includes('-----BEGIN ')) throw new ValidationError(`${field} must be in PEM`)
  return bytes
}

function checkOrigins(field: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) throw new ValidationError(`${field} must be a list of origins`)
  for (const [at, origin] of value.entries()) {
    const isOrigin =
      typeof origin === 'string' && URL.canParse(origin) && new URL(origin).origin === origin
    if (!isOrigin && origin !== '*')
      throw new ValidationError(
        `${field}[${at}] must be an origin such as https://app.example, or *`,
      )
  }
  return value
}

/** Seconds for which a browser remembers that a page may send requests (CORS). */
const MAX_AGE = 600

/** The web origins whose pages may send requests. `*` stands for every origin. */
export class AllowedOrigins {
  readonly #allowed: ReadonlySet<string>

  constructor(allowed: readonly string[]) {
    this.#allowed = new Set(allowed)
  }

  /**
   * Throws HTTPError for a page of an origin that is not allowed. A program that is not a web page
   * names no origin, and is allowed.
   */
  check({ headers: { origin } }: IncomingMessage): void {
    if (origin !== undefined && !this.#has(origin))
      throw new HTTPError(403, 'pages of this origin are not allowed')
  }

  /** The headers that let a page of an origin read the answer (CORS). */
  headersFor({ headers: { origin } }: IncomingMessage): Readonly<Record<string, string>> {
    if (origin === undefined || !this.#has(origin)) return { vary: 'origin' }
    return {
      vary: 'origin',
      'access-control-allow-origin': origin,
      'access-control-allow-headers': 'authorization, user-agent',
      'access-control-expose-headers': 'retry-after, date',
      'access-control-max-age': String(MAX_AGE),
    }
  }

  #has(origin: string): boolean {
    return this.#allowed.has('*') || this.#allowed.has(origin)
  }
}
