import type { Command } from 'commander'
import type { Config } from 'sluice'
import { endpoints } from 'sluice'
import type { Client, Plugin } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { pickOptions } from 'sluice/internal'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { addEnvFile } from '../input/env-file.js'
import type { IO } from '../io.js'
import { addNetworkOptions, type NetworkOptions, readNetwork } from './network.js'

/** The networks of the service. */
export type NetworkName = keyof typeof endpoints

/** The options of the commands that talk to the service. */
export interface ServiceOptions extends NetworkOptions {
  readonly mainnet?: boolean
  readonly testnet?: boolean
  readonly endpoint?: string
  readonly wsEndpoint?: string
  readonly envFile?: string
}

/** Which service is meant, and who asks it. */
export interface Service {
  readonly endpoint: string
  readonly wsEndpoint: string
  /** Undefined for a service at other URLs, such as a local data engine. */
  readonly network: NetworkName | undefined
  /** Undefined where the environment has none. */
  readonly credentials: Pick<Config, 'apiKey' | 'userSecret'> | undefined
  /** The proxy and the certificates that it is reached with. */
  readonly egress: Pick<Config, 'proxy' | 'tls'>
}

/** Adds them to a command. */
export function addServiceOptions(command: Command): Command {
  command
    .option('--mainnet', 'ask the mainnet')
    .option('--testnet', 'ask the testnet, which is the default')
    .option('--endpoint <url>', 'ask the service at this URL (default: REST_URL)')
    .option(
      '--ws-endpoint <url>',
      'stream from this URL, or from several, separated by commas (default: WS_URL)',
    )
    .option('--env-file <file>', 'read what the environment lacks from this file')
  return addNetworkOptions(command)
}

/**
 * Reads which service is meant, by options and the environment. Credentials have all the names that the official documentation
 * uses; no option takes them, since others see the arguments of a process.
 */
export function findService(options: ServiceOptions, io: IO): Service {
  const { mainnet, testnet, endpoint, wsEndpoint, envFile } = options
  const isNamed = mainnet === true || testnet === true
  if (mainnet && testnet) throw new ValidationError('--mainnet and --testnet exclude each other')
  if (isNamed && (endpoint !== undefined || wsEndpoint !== undefined))
    throw new ValidationError('--mainnet and --testnet exclude --endpoint and --ws-endpoint')
  if (envFile !== undefined) addEnvFile(io, envFile)
  const { env } = io
  const apiKey = env.API_KEY || env.STREAMS_API_KEY
  const userSecret = env.USER_SECRET || env.API_SECRET || env.STREAMS_API_SECRET
  const named = endpoints[mainnet ? 'mainnet' : 'testnet']
  const urls = {
    endpoint: endpoint ?? ((isNamed ? '' : env.REST_URL) || named.endpoint),
    wsEndpoint: wsEndpoint ?? ((isNamed ? '' : env.WS_URL) || named.wsEndpoint),
  }
  return {
    ...urls,
    network: networkOf(urls.endpoint),
    credentials: apiKey && userSecret ? { apiKey, userSecret } : undefined,
    egress: readNetwork(options, env),
  }
}

function networkOf(endpoint: string): NetworkName | undefined {
  const names = Object.keys(endpoints) as NetworkName[]
  return names.find(name => endpoint.startsWith(endpoints[name].endpoint))
}

/** The configuration of a client of a service. Throws without credentials. */
export function configOf({ endpoint, wsEndpoint, credentials, egress }: Service): Config {
  if (credentials === undefined)
    throw new ValidationError(
      'API_KEY and USER_SECRET must be set in the environment, or in --env-file',
    )
  return { ...credentials, endpoint, wsEndpoint, ...egress }
}

/** Makes a client of a service; `above` are plugins that stand above those of the preset. */
export async function connect(
  service: Service,
  more: Partial<Config> = {},
  above: readonly Plugin<never>[] = [],
): Promise<Client<DecodedReport>> {
  const config = { ...configOf(service), ...more }
  const { createClient } = await import('sluice')
  if (above.length === 0) return createClient(config)
  const { clientNames, presetOf } = await import('sluice/internal')
  const plugins = [...above, ...(presetOf(config) as readonly Plugin<DecodedReport>[])]
  return createClient({ ...pickOptions(config, clientNames), plugins })
}
