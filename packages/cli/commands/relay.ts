import type { Relay, RelayOptions } from '@sluice/nats'
import type { Gateway } from '@sluice/nats/gateway'
import { ValidationError } from 'sluice/core'
import { type AddCommand, defineCommand, given } from '../command.js'
import { type IO, say, stopped, warn } from '../io.js'
import { standardError } from '../output/log.js'
import { connectNats, logOptions } from '../service/nats.js'
import {
  configOf,
  findService,
  readTLS,
  type ServiceOptions,
  serviceOptions,
} from '../service/service.js'
import { findSigners, type SignerOptions, signerOptions } from '../service/signers.js'
import { lookUpFeeds } from '../stream/look-up.js'

const HOUR = 3_600_000

/** Adds `sluice relay`: runs a relay, a gateway or both until the user stops it. */
export const addRelayCommand: AddCommand = defineCommand({
  name: 'relay',
  help: 'receive the reports of feeds once, and store them in a stream of NATS JetStream; with --gateway, serve that to pages',
  options: {
    ...logOptions,
    ...serviceOptions,
    ...signerOptions,
    feeds: {
      value: 'feeds',
      help: 'ids or names of the feeds to receive, separated by commas',
    },
    name: {
      value: 'name',
      help: 'tells the cursors of this relay from those of others',
      is: 'logName',
      needs: ['feeds'],
    },
    create: { help: 'create the stream where it does not exist', needs: ['feeds'] },
    replicas: {
      value: 'n',
      help: '… with a copy on so many servers (default: 1)',
      is: 'whole',
      min: 1,
      max: 5,
      needs: ['create'],
    },
    maxAge: {
      value: 'time',
      help: '… with the reports of this time, such as 12h or 7d (default: 24h)',
      is: 'span',
      needs: ['create'],
    },
    maxBytes: {
      value: 'n',
      help: '… with so many bytes at most (default: 8589934592)',
      is: 'whole',
      min: 1_048_576,
      needs: ['create'],
    },
    ha: {
      help: 'one connection to the service, and not one per origin',
      isOn: true,
      needs: ['feeds'],
    },
    gateway: {
      value: 'port',
      help: 'serve the stream to pages on this port',
      is: 'whole',
      max: 65_535,
      needs: ['tokens'],
    },
    tokens: {
      value: 'file',
      help: 'the JSON file of the tokens of pages, which may be changed meanwhile',
      needs: ['gateway'],
    },
    host: {
      value: 'address',
      help: 'the address that --gateway listens on (default: 127.0.0.1)',
      needs: ['gateway'],
    },
    allowOrigin: {
      value: 'origin',
      help: 'an origin whose pages may ask, such as https://app.example; may be repeated',
      is: 'list',
      needs: ['gateway'],
    },
    gatewayCert: {
      value: 'file',
      help: 'TLS for pages: its certificate, in PEM',
      needs: ['gateway', 'gatewayKey'],
    },
    gatewayKey: { value: 'file', help: 'its private key, in PEM', needs: ['gatewayCert'] },
    maxConnections: {
      value: 'n',
      help: 'streams of all pages (default: 1000)',
      is: 'whole',
      min: 1,
      max: 1_000_000,
      needs: ['gateway'],
    },
    maxConnectionsPerToken: {
      value: 'n',
      help: 'streams of one token (default: 100)',
      is: 'whole',
      min: 1,
      max: 1_000_000,
      needs: ['gateway'],
    },
  },
  examples: ['sluice relay --nats nats://127.0.0.1:4222 --feeds 0x0003…,0x0003… --create'],
  async run(options, io) {
    const { feeds, stream, prefix, name, create, replicas, maxAge, maxBytes: bytes } = options
    const { gateway: port, tokens = '', host, allowOrigin: origins } = options
    if (feeds === undefined && port === undefined)
      throw new ValidationError('--feeds, --gateway or both must be given')
    const receiving = feeds === undefined ? undefined : await findReceived(feeds, options, io)
    const tls = readTLS(
      { ca: undefined, cert: options.gatewayCert, key: options.gatewayKey },
      '--gateway-',
    )
    const { createRelay } = await import('@sluice/nats')
    const { createGateway } = await import('@sluice/nats/gateway')
    const connection = await connectNats(options)
    const ended = [stopped(io)]
    let relay: Relay | undefined
    let gateway: Gateway | undefined
    try {
      if (receiving !== undefined) {
        const hours = maxAge === undefined ? undefined : maxAge / HOUR
        const created = create ? given({ replicas, hours, bytes }) : undefined
        const log = given({ stream, prefix, name, create: created })
        relay = await createRelay({ ...receiving, ...log, connection })
        relay.stream.on('error', ({ message }) => warn(io, message))
        relay.stream.on('gap', ({ feedID, from, to }) =>
          warn(io, `gap of ${feedID}: ${from} to ${to}`),
        )
        ended.push(relay.closed)
        say(io, `relaying ${relay.stream.feedIDs.length} feeds; Ctrl-C ends it`)
      }
      if (port !== undefined) {
        const { maxConnections: connections, maxConnectionsPerToken: connectionsPerToken } = options
        gateway = await createGateway({
          ...{ connection, port, tokens, origins },
          ...given({ stream, prefix, host, tls }),
          limits: given({ connections, connectionsPerToken }),
          log: standardError(io),
        } as Parameters<typeof createGateway>[0])
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

/** The configuration of a client that receives the feeds, and their ids. */
async function findReceived(
  feeds: string,
  options: ServiceOptions & SignerOptions & { readonly ha: boolean },
  io: IO,
): Promise<Required<Pick<RelayOptions, 'config' | 'feedIDs'>>> {
  const service = findService(options, io)
  const signers = await findSigners(options)
  const found = await lookUpFeeds([feeds], service, {}, {}, io)
  return {
    config: {
      ...configOf(service),
      ...given({ verify: signers && { signers } }),
      haMode: options.ha,
    },
    feedIDs: found.map(({ feedID }) => feedID),
  }
}
