import { createRelay, type Relay } from '@sluice/nats'
import { createGateway, type Gateway } from '@sluice/nats/gateway'
import { readFile } from '../input/files.js'
import { type IO, say, stopped, warn } from '../io.js'
import { standardError } from '../output/log.js'
import { connectNats } from '../service/nats.js'
import { configOf, findService } from '../service/service.js'
import { findSigners } from '../service/signers.js'
import { lookUpFeeds } from '../stream/look-up.js'
import type { RelayCommandOptions } from './options.js'

const HOUR = 3_600_000

/** Runs a relay, a gateway or both until the user stops it. */
export async function runRelay(options: RelayCommandOptions, io: IO): Promise<void> {
  const receiving =
    options.feeds === undefined ? undefined : await findReceived(options.feeds, options, io)
  const connection = await connectNats(options)
  const ended = [stopped(io)]
  let relay: Relay | undefined
  let gateway: Gateway | undefined
  try {
    if (receiving !== undefined) {
      relay = await createRelay({ ...relayOptions(options), ...receiving, connection })
      relay.stream.on('error', ({ message }) => warn(io, message))
      relay.stream.on('gap', ({ feedID, from, to }) =>
        warn(io, `gap of ${feedID}: ${from} to ${to}`),
      )
      ended.push(relay.closed)
      say(io, `relaying ${relay.stream.feedIDs.length} feeds; Ctrl-C ends it`)
    }
    if (options.gateway !== undefined) {
      gateway = await createGateway({ ...gatewayOptions(options, options.gateway, io), connection })
      say(io, `serving pages at ${gateway.url}; Ctrl-C ends it`)
    }
    await Promise.race(ended)
  } finally {
    await gateway?.close()
    await relay?.close()
    await connection.close()
  }
}

type WithoutConnection<Options> = Omit<Options, 'connection'>
type RelayParts = WithoutConnection<Parameters<typeof createRelay>[0]>
type GatewayParts = WithoutConnection<Parameters<typeof createGateway>[0]>

/** The feeds that are received, and how. */
async function findReceived(
  feeds: string,
  options: RelayCommandOptions,
  io: IO,
): Promise<Required<Pick<RelayParts, 'config' | 'feedIDs'>>> {
  const service = findService(options, io)
  const signers = await findSigners(options)
  const how = { maxAttempts: Number.POSITIVE_INFINITY, isQuiet: false }
  const found = await lookUpFeeds([feeds], service, {}, how, io)
  return {
    config: {
      ...configOf(service),
      ...(signers === undefined ? {} : { verify: { signers } }),
      haMode: options.ha,
    },
    feedIDs: found.map(({ feedID }) => feedID),
  }
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

function relayOptions(options: RelayCommandOptions): Omit<RelayParts, 'config' | 'feedIDs'> {
  const { stream, prefix, name, create, replicas, maxAge, maxBytes: bytes } = options
  const hours = maxAge === undefined ? undefined : maxAge / HOUR
  return {
    ...given({ stream, prefix, name }),
    ...(create === true ? { create: given({ replicas, hours, bytes }) } : {}),
  }
}

function gatewayOptions(options: RelayCommandOptions, port: number, io: IO): GatewayParts {
  const { stream, prefix, host, tokens = '', allowOrigin, gatewayCert, gatewayKey } = options
  const { maxConnections: connections, maxConnectionsPerToken: connectionsPerToken } = options
  return {
    port,
    tokens,
    origins: allowOrigin,
    log: standardError(io),
    limits: given({ connections, connectionsPerToken }),
    ...given({ stream, prefix, host }),
    ...(gatewayCert === undefined || gatewayKey === undefined
      ? {}
      : {
          tls: {
            cert: readFile('--gateway-cert', gatewayCert),
            key: readFile('--gateway-key', gatewayKey),
          },
        }),
  }
}
