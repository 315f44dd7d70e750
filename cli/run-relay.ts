import { once } from 'node:events'
import { ValidationError } from '../core/errors.js'
import { createGateway, type Gateway } from '../gateway/index.js'
import { createRelay, type Relay } from '../nats/index.js'
import { findCredentials } from './credentials.js'
import { connectNats } from './nats-connection.js'
import { readNetwork, readOption } from './network.js'
import type { RelayCommandOptions } from './relay-options.js'
import { standardError } from './standard-error.js'

/** Runs a relay, a gateway or both until the signal aborts. */
export async function runRelay(
  options: RelayCommandOptions,
  signal: AbortSignal,
  warn: (text: string) => void,
  out: NodeJS.WriteStream,
): Promise<void> {
  const config = options.feeds === undefined ? undefined : readConfig(options)
  const connection = await connectNats(options)
  const ended: Promise<unknown>[] = signal.aborted ? [] : [once(signal, 'abort')]
  let relay: Relay | undefined
  let gateway: Gateway | undefined
  try {
    if (config !== undefined) {
      relay = await createRelay({ ...relayOptions(options), config, connection })
      relay.stream.on('error', ({ message }) => warn(message))
      relay.stream.on('gap', ({ feedID, from, to }) => warn(`gap of ${feedID}: ${from} to ${to}`))
      ended.push(relay.closed)
      out.write(`relaying ${relay.stream.feedIDs.length} feeds; Ctrl-C ends it\n`)
    }
    if (options.gateway !== undefined) {
      gateway = await createGateway({ ...gatewayOptions(options, options.gateway), connection })
      out.write(`serving pages at ${gateway.url}; Ctrl-C ends it\n`)
    }
    if (!signal.aborted) await Promise.race(ended)
  } finally {
    await gateway?.close()
    await relay?.close()
    await connection.close()
  }
}

type WithoutConnection<Options> = Omit<Options, 'connection'>
type RelayParts = WithoutConnection<Parameters<typeof createRelay>[0]>
type GatewayParts = WithoutConnection<Parameters<typeof createGateway>[0]>

function readConfig(options: RelayCommandOptions): NonNullable<RelayParts['config']> {
  const credentials = findCredentials(process.env)
  if (credentials === undefined)
    throw new ValidationError('API_KEY and USER_SECRET must be set in the environment')
  const network = readNetwork(options, process.env)
  return { ...credentials, ...network, haMode: options.single !== true }
}

/** Those of the options that are given: the others have defaults. */
function given<Options extends object>(
  options: Options,
): {
  [Name in keyof Options]: Exclude<Options[Name], undefined>
} {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as never
}

function relayOptions(options: RelayCommandOptions): Omit<RelayParts, 'config'> {
  const { feeds = [], stream, prefix, name, create, replicas, hours, bytes } = options
  return {
    feedIDs: feeds,
    ...given({ stream, prefix, name }),
    ...(create === true ? { create: given({ replicas, hours, bytes }) } : {}),
  }
}

function gatewayOptions(options: RelayCommandOptions, port: number): GatewayParts {
  const { stream, prefix, host, tokens = '', allowOrigin, gatewayCert, gatewayKey } = options
  const { maxConnections: connections, maxConnectionsPerToken: connectionsPerToken } = options
  return {
    port,
    tokens,
    origins: allowOrigin,
    log: standardError,
    limits: given({ connections, connectionsPerToken }),
    ...given({ stream, prefix, host }),
    ...(gatewayCert === undefined || gatewayKey === undefined
      ? {}
      : {
          tls: {
            cert: readOption('--gateway-cert', gatewayCert),
            key: readOption('--gateway-key', gatewayKey),
          },
        }),
  }
}
