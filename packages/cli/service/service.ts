import * as util from 'node:util'
import { localCredentials } from '@sluice/engine'
import { type Config, createClient, endpoints } from 'sluice'
import type { Client, Plugin } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { clientNames, pickOptions, presetOf } from 'sluice/internal'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { given, type Values } from '../command.js'
import { readFile } from '../input/files.js'
import type { IO } from '../io.js'

/** The networks of the service. */
export type NetworkName = keyof typeof endpoints

/**
 * The options of the commands that talk to the service. They name the service, the proxy and the
 * certificates.
 */
export const serviceOptions = {
  mainnet: { help: 'ask the mainnet', excludes: ['testnet', 'endpoint', 'wsEndpoint'] },
  testnet: { help: 'ask the testnet, which is the default', excludes: ['endpoint', 'wsEndpoint'] },
  endpoint: { is: 'url', help: 'ask the service at this URL (default: REST_URL)' },
  wsEndpoint: {
    is: 'url',
    help: 'stream from this URL, or from several, separated by commas (default: WS_URL)',
  },
  envFile: { is: 'file', help: 'read variables that the environment lacks from this file' },
  proxy: { is: 'url', help: 'go through this proxy; env for that of HTTPS_PROXY and the like' },
  ca: { is: 'file', help: 'trust only the authorities of this file, in PEM' },
  cert: { is: 'file', help: 'show this client certificate, in PEM' },
  key: { is: 'file', help: 'its private key, in PEM; TLS_PASSPHRASE decrypts it' },
} as const
export type ServiceOptions = Values<typeof serviceOptions>

/** A service, and the credentials and settings for connections to it. */
export interface Service {
  readonly endpoint: string
  readonly wsEndpoint: string
  /**
   * The network of the service; undefined at other URLs, such as the URL of a local data engine.
   */
  readonly network: NetworkName | undefined
  /** Undefined if the environment has no credentials. */
  readonly credentials: Pick<Config, 'apiKey' | 'userSecret'> | undefined
  /** The proxy and the certificates for connections to the service. */
  readonly egress: Pick<Config, 'proxy' | 'tls'>
}

/**
 * Finds the service that the options and the environment name. Credentials may have any name that
 * the official documentation uses. No option takes credentials, because others can see the
 * arguments of a process.
 */
export function findService(options: ServiceOptions, io: IO): Service {
  const { mainnet, testnet, endpoint, wsEndpoint, envFile } = options
  const isNamed = mainnet === true || testnet === true
  if (envFile !== undefined) addEnvFile(io, envFile)
  const { env } = io
  const apiKey = env.API_KEY || env.STREAMS_API_KEY
  const userSecret = env.USER_SECRET || env.API_SECRET || env.STREAMS_API_SECRET
  const named = endpoints[mainnet ? 'mainnet' : 'testnet']
  const urls = {
    endpoint: endpoint ?? ((isNamed ? '' : env.REST_URL) || named.endpoint),
    wsEndpoint: wsEndpoint ?? ((isNamed ? '' : env.WS_URL) || named.wsEndpoint),
  }
  const network = networkOf(urls.endpoint)
  if (network !== undefined && apiKey === localCredentials.apiKey)
    throw new ValidationError(
      `API_KEY is that of a local data engine, and ${urls.endpoint} is the public service: set REST_URL and WS_URL to the URLs of the engine, or API_KEY to a key of the service`,
    )
  return {
    ...urls,
    network,
    credentials: apiKey && userSecret ? { apiKey, userSecret } : undefined,
    egress: readEgress(options, env),
  }
}

function networkOf(endpoint: string): NetworkName | undefined {
  const names = Object.keys(endpoints) as NetworkName[]
  return names.find(name => endpoint.startsWith(endpoints[name].endpoint))
}

/**
 * Adds the variables of a file to the environment, as `node --env-file` does. A variable that is
 * already set keeps its value.
 */
function addEnvFile({ env }: IO, path: string): void {
  if (typeof util.parseEnv !== 'function')
    throw new ValidationError('--env-file needs Node 20.12, or 21.7')
  const added = util.parseEnv(readFile('--env-file', path).toString())
  for (const [name, value] of Object.entries(added)) env[name] ??= value
}

/** Reads the proxy and the certificates for connections to the service. */
function readEgress({ proxy, ca, cert, key }: ServiceOptions, env: IO['env']): Service['egress'] {
  if (proxy?.includes('@'))
    throw new ValidationError(
      '--proxy must have no user name and password, which others could see: set HTTPS_PROXY, and give --proxy env',
    )
  const tls = readTLS({ ca, cert, key })
  const passphrase = key !== undefined && env.TLS_PASSPHRASE
  return given({ proxy, tls: passphrase ? { ...tls, passphrase } : tls })
}

/** Reads the files of certificates that the options name. Returns undefined if they name none. */
export function readTLS(
  paths: Readonly<Record<'ca' | 'cert' | 'key', string | undefined>>,
  prefix = '--',
): { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer } | undefined {
  const named = Object.entries(given(paths))
  if (named.length === 0) return undefined
  return Object.fromEntries(named.map(([name, path]) => [name, readFile(`${prefix}${name}`, path)]))
}

/** The configuration of a client for a service. Throws without credentials. */
export function configOf({ endpoint, wsEndpoint, credentials, egress }: Service): Config {
  if (credentials === undefined)
    throw new ValidationError(
      'API_KEY and USER_SECRET must be set in the environment, or in --env-file',
    )
  return { ...credentials, endpoint, wsEndpoint, ...egress }
}

/** Makes a client for a service. The plugins in `above` stand above the plugins of the preset. */
export function connect(
  service: Service,
  more: Partial<Config> = {},
  above: readonly Plugin<never>[] = [],
): Client<DecodedReport> {
  const config = { ...configOf(service), ...more }
  if (above.length === 0) return createClient(config)
  const plugins = [...above, ...(presetOf(config) as readonly Plugin<DecodedReport>[])]
  return createClient({ ...pickOptions(config, clientNames), plugins })
}
