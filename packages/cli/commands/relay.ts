import type { Relay } from '@sluice/nats'
import type { Gateway, GatewayLimits, GatewayOptions } from '@sluice/nats/gateway'
import type { Client } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { asyncDispose } from 'sluice/internal'
import { type AddCommand, defineCommand, given, needing } from '../command.js'
import { readFeedList } from '../input/feeds.js'
import { readFile } from '../input/files.js'
import { type IO, say, stopped, unlessStopped, warn } from '../io.js'
import { count } from '../output/feeds.js'
import { createLineLimit, standardError } from '../output/log.js'
import { type Metrics, metricsOptions, startMetrics } from '../output/metrics.js'
import { connectNats, logOptions, serversOf } from '../service/nats.js'
import {
  connect,
  environmentOf,
  findService,
  readTLS,
  type ServiceOptions,
  serviceOptions,
} from '../service/service.js'
import { findSigners, type SignerOptions, signerOptions } from '../service/signers.js'
import { hostOf, lookUpAllFeeds, lookUpFeeds } from '../stream/look-up.js'
import { noteVerification } from '../stream/verification.js'

/** A second in milliseconds. */
const SECOND = 1000
/** An hour in milliseconds. */
const HOUR = 3_600_000
/** How many milliseconds of missing reports a relay fetches. */
const MAX_BACKFILL = 24 * HOUR
/** The rule for options that limit how much pages may have. */
const pages = { is: 'whole', min: 1, max: 1_000_000 } as const

/** Adds `sluice relay`. The command runs a relay, a gateway or both until the user stops it. */
export const addRelayCommand: AddCommand = defineCommand({
  name: 'relay',
  runsUntilStopped: true,
  options: {
    ...logOptions,
    ...serviceOptions,
    ...metricsOptions,
    feeds: {
      value: 'feeds|@file|all',
      help: 'ids or names of the feeds to receive, separated by commas; a file of them; or all that the service lists at the start',
    },
    ...needing('feeds', {
      ...signerOptions,
      name: { is: 'logName', help: 'tells the cursors of this relay from those of others' },
      create: { help: 'create the stream where it does not exist' },
      ha: { help: 'one connection to the service, and not one per origin', isOn: true },
    }),
    ...needing('create', {
      replicas: {
        is: 'whole',
        help: '… with a copy on so many servers (default: 1)',
        min: 1,
        max: 5,
      },
      maxAge: {
        is: 'span',
        help: '… with the reports of this time, such as 12h or 7d (default: 24h)',
      },
      maxBytes: {
        is: 'whole',
        help: '… with so many bytes at most (default: 8589934592)',
        min: 1_048_576,
      },
    }),
    gateway: {
      is: 'port',
      value: 'port',
      help: 'serve the stream to pages on this port; needs --tokens, or an issuer of JWTs',
    },
    ...needing('gateway', {
      tokens: {
        is: 'file',
        help: 'the JSON file of the tokens of pages, which may be changed meanwhile',
      },
      jwtJwks: {
        is: 'file',
        value: 'url|file',
        help: 'JWTs of pages: the public keys of their issuer, as a JWK Set',
        needs: ['jwtIssuer', 'jwtAudience'],
        excludes: ['jwtKey'],
      },
      jwtKey: {
        is: 'file',
        help: '… or its only public key, in PEM',
        needs: ['jwtIssuer', 'jwtAudience'],
      },
      jwtIssuer: { is: 'name', help: '… the issuer, which a token names in iss' },
      jwtAudience: { is: 'name', help: '… the audience, which a token names in aud' },
      jwtClaim: { is: 'name', help: '… the claim with what its holder may do (default: sluice)' },
      host: {
        is: 'address',
        help: 'the address that --gateway listens on (default: 127.0.0.1)',
      },
      allowOrigin: {
        is: 'list',
        value: 'origin',
        help: 'an origin whose pages may ask, such as https://app.example; may be repeated',
      },
      gatewayCert: {
        is: 'file',
        help: 'TLS for pages: its certificate, in PEM',
        needs: ['gatewayKey'],
      },
      gatewayKey: { is: 'file', help: 'its private key, in PEM', needs: ['gatewayCert'] },
      maxConnections: { ...pages, help: 'streams of all pages (default: 1000)' },
      maxConnectionsPerToken: { ...pages, help: 'streams of one token (default: 100)' },
      maxFeeds: { ...pages, help: 'feeds of one stream or bulk request (default: 200)' },
      maxBuffered: {
        is: 'whole',
        min: 1,
        help: 'bytes that may wait to be sent on a stream (default: 1048576)',
      },
      maxRequests: { ...pages, help: 'open requests of all pages (default: 64)' },
      maxRequestsPerToken: { ...pages, help: 'open requests of one token (default: 16)' },
      maxReportsPerToken: {
        ...pages,
        help: 'reports that the open requests of one token ask for (default: 4000)',
      },
      maxReads: {
        ...pages,
        help: 'messages per second that the requests of one token read (default: 2000)',
      },
      maxPublishDelay: {
        is: 'span',
        help: 'how late a report may be published to the stream, such as 90s (default: 15m)',
      },
    }),
  },
  examples: ['sluice relay --nats nats://127.0.0.1:4222 --feeds 0x0003…,0x0003… --create'],
  async run(options, io) {
    const { feeds, stream, prefix, name, create, replicas, maxAge, maxBytes: bytes } = options
    const { gateway: port, host, allowOrigin: origins } = options
    if (feeds === undefined && port === undefined)
      throw new ValidationError('--feeds, --gateway or both must be given')
    const tokenSources = port === undefined ? {} : findTokenSources(options)
    await using metrics = await startMetrics(options, io)
    await using received =
      feeds === undefined ? undefined : await openReceived(feeds, options, metrics, io)
    const tls = readTLS(
      { ca: undefined, cert: options.gatewayCert, key: options.gatewayKey },
      '--gateway-',
      io.stderr,
    )
    const { createRelay, DEFAULT_STREAM } = await import('@sluice/nats')
    const { createGateway } = await import('@sluice/nats/gateway')
    const nats = `NATS at ${serversOf(options).join(', ')}`
    metrics.waitFor(nats)
    const env = environmentOf(options, io)
    const connection = await connectNats(options, { env, signal: io.signal, stderr: io.stderr })
    const ended = [stopped(io)]
    let relay: Relay | undefined
    let gateway: Gateway | undefined
    try {
      if (received !== undefined) {
        const hours = maxAge === undefined ? undefined : maxAge / HOUR
        const created = create ? given({ replicas, hours, bytes }) : undefined
        const log = given({ stream, prefix, name, create: created })
        const { client, feedIDs } = received
        metrics.waitFor(`stream ${stream ?? DEFAULT_STREAM} of ${nats}, and ${received.service}`)
        const starting = createRelay({
          ...{ client, feedIDs, ...log, connection },
          log: standardError(io, name),
        })
        relay = await unlessStopped(io, starting)
        metrics.add(relay.health)
        const mayWarn = createLineLimit()
        relay.stream.on('error', ({ message }) => {
          if (mayWarn(message)) warn(io, message)
        })
        relay.stream.on('gap', ({ feedID, from, to }) =>
          warn(io, `gap of ${feedID}: ${from} to ${to}`),
        )
        noteVerification(relay.stream, line => warn(io, line))
        ended.push(relay.closed)
        say(io, `relaying ${count(relay.stream.feedIDs.length, 'feed')}; Ctrl-C ends it`)
      }
      if (port !== undefined) {
        const { maxPublishDelay: delay } = options
        metrics.waitFor(`stream ${stream ?? DEFAULT_STREAM} of ${nats}`)
        const starting = createGateway({
          ...{ connection, port, origins, ...tokenSources },
          ...given({ stream, prefix, host, tls }),
          ...given({ maxPublishDelay: delay === undefined ? undefined : delay / SECOND }),
          limits: limitsOf(options),
          log: standardError(io, name),
        } as Parameters<typeof createGateway>[0])
        gateway = await unlessStopped(io, starting)
        metrics.add(gateway.health)
        say(io, `serving pages at ${gateway.url}; Ctrl-C ends it`)
      }
      await Promise.race(ended)
    } finally {
      await gateway?.close()
      await relay?.close()
      await connection.close()
    }
  },
})

/** The options of the tokens of pages. */
interface TokenOptions {
  readonly tokens?: string | undefined
  readonly jwtJwks?: string | undefined
  readonly jwtKey?: string | undefined
  readonly jwtIssuer?: string | undefined
  readonly jwtAudience?: string | undefined
  readonly jwtClaim?: string | undefined
}

/** Returns the gateway's options of tokens. */
function findTokenSources(options: TokenOptions): Pick<GatewayOptions, 'tokens' | 'jwt'> {
  const { tokens, jwtJwks: jwks, jwtKey, jwtIssuer, jwtAudience, jwtClaim: claim } = options
  const hasKeys = jwks !== undefined || jwtKey !== undefined
  if (!hasKeys && (jwtIssuer !== undefined || jwtAudience !== undefined || claim !== undefined))
    throw new ValidationError(
      '--jwt-issuer, --jwt-audience and --jwt-claim need --jwt-jwks or --jwt-key',
    )
  if (!hasKeys) {
    if (tokens === undefined)
      throw new ValidationError('--gateway needs --tokens, --jwt-jwks or --jwt-key')
    return { tokens }
  }
  const publicKey = jwtKey === undefined ? undefined : readFile('--jwt-key', jwtKey).toString()
  const issuer = { issuer: jwtIssuer, audience: jwtAudience }
  return given({ tokens, jwt: { ...issuer, ...given({ jwks, publicKey, claim }) } }) as Pick<
    GatewayOptions,
    'tokens' | 'jwt'
  >
}

/** The gateway's limits, by the options that set them. */
const limits = {
  maxConnections: 'connections',
  maxConnectionsPerToken: 'connectionsPerToken',
  maxFeeds: 'feedsPerConnection',
  maxBuffered: 'bufferedBytes',
  maxRequests: 'requests',
  maxRequestsPerToken: 'requestsPerToken',
  maxReportsPerToken: 'reportsPerToken',
  maxReads: 'readsPerSecond',
} as const satisfies Readonly<Record<string, keyof GatewayLimits>>

/** Returns the limits that were given. */
function limitsOf(
  options: Readonly<Partial<Record<keyof typeof limits, number | undefined>>>,
): GatewayLimits {
  const names = Object.entries(limits) as readonly [keyof typeof limits, keyof GatewayLimits][]
  return given(Object.fromEntries(names.map(([option, limit]) => [limit, options[option]])))
}

/** The client that receives the feeds of a relay. */
interface Received extends AsyncDisposable {
  readonly client: Client
  readonly feedIDs: readonly string[]
  /** The service in words. */
  readonly service: string
}

/** Opens a client that receives the feeds. */
async function openReceived(
  feeds: string,
  options: ServiceOptions & SignerOptions & { readonly ha: boolean },
  metrics: Metrics,
  io: IO,
): Promise<Received> {
  const service = findService(options, io)
  const signers = await findSigners(options)
  const name = `the service at ${hostOf(service)}`
  metrics.waitFor(`${name}, which lists the feeds`)
  const found =
    feeds === 'all'
      ? await lookUpAllFeeds(service, io)
      : await lookUpFeeds(await readFeedList('--feeds', feeds), service, {}, {}, io)
  const config = {
    ...given({ verify: signers && { signers } }),
    haMode: options.ha,
    continuity: { maxBackfill: MAX_BACKFILL },
  }
  const client = connect(service, config, metrics.plugins)
  const feedIDs = found.map(({ feedID }) => feedID)
  return { client, feedIDs, service: name, [asyncDispose]: () => client.close() }
}
