import * as util from 'node:util'
import { type Config, createClient, endpoints } from 'sluice'
import type { Client, EventsOf, Plugin } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { checkURL, clientNames, pickOptions, presetOf } from 'sluice/internal'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { given, inGroup, type Values } from '../command.js'
import { readFile, readText, warnOfOthers } from '../input/files.js'
import type { IO } from '../io.js'
import { flagOf } from '../values.js'
import { KeptCatalogue } from './catalogue.js'
import { contextOption, contextOptions, findContext, type ServiceContext } from './contexts.js'

/** The networks of the service. */
export type NetworkName = keyof typeof endpoints

/**
 * The options of the commands that talk to the service. They name the service, the proxy and the
 * certificates.
 */
export const serviceOptions: typeof contextOptions & typeof contextOption = inGroup('The service', {
  ...contextOptions,
  ...contextOption,
})
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
  /** The name of the context that was read; undefined without one. */
  readonly context: string | undefined
  /** The answers of the catalogue that are kept on disk. */
  readonly kept: KeptCatalogue
}

/**
 * Finds the service that the options, the environment and the context name. Credentials may have
 * any name that the official documentation uses. No option takes credentials, because others can
 * see the arguments of a process. The URLs, the credentials, the proxy and the certificates are
 * each taken whole from the first of these that has some, so that no key goes with another's
 * secret.
 */
export function findService(options: ServiceOptions, io: IO): Service {
  const env = environmentOf(options, io)
  const found = findContext(options.context, env)
  const { name = '', context = {} } = found ?? {}
  const contextEnv =
    context.envFile === undefined ? {} : readSecretEnv(`context ${name}`, context.envFile, io)
  const named = urlsOf(options, env) ?? urlsOf(context, contextEnv) ?? {}
  const urls = { ...endpoints.testnet, ...named }
  checkURLsOf(urls, named, options, urlsOf(options, env) === undefined ? name : undefined)
  const credentials = credentialsOf(env) ?? credentialsOf(contextEnv)
  if (credentials?.apiKey === LOCAL_KEY) checkIsLocal(urls.endpoint, named.wsEndpoint)
  const passphrase = env.TLS_PASSPHRASE || contextEnv.TLS_PASSPHRASE
  return {
    ...urls,
    network: networkOf(urls.endpoint),
    credentials: credentials?.apiKey && credentials.userSecret ? credentials : undefined,
    egress: readEgress(options, context, passphrase, io),
    context: name === '' ? undefined : name,
    kept: new KeptCatalogue(env, urls.endpoint, credentials?.apiKey),
  }
}

type Env = Readonly<Record<string, string | undefined>>

/** The URLs of a service that options or else an environment name; undefined if they name none. */
function urlsOf(
  { mainnet, testnet, ...options }: ServiceContext,
  env: Env,
): Partial<Pick<Service, 'endpoint' | 'wsEndpoint'>> | undefined {
  if (mainnet || testnet) return endpoints[mainnet ? 'mainnet' : 'testnet']
  const endpoint = options.endpoint ?? (env.REST_URL || undefined)
  const wsEndpoint = options.wsEndpoint ?? (env.WS_URL || undefined)
  return endpoint === undefined && wsEndpoint === undefined
    ? undefined
    : given({ endpoint, wsEndpoint })
}

/**
 * Checks the URLs of a service. An error names what the user has set: an option, a variable of the
 * environment, or a context.
 */
function checkURLsOf(
  urls: Pick<Service, 'endpoint' | 'wsEndpoint'>,
  named: Partial<typeof urls>,
  options: ServiceContext,
  context: string | undefined,
): void {
  const check = (field: keyof typeof urls, variable: string, schemes: readonly string[]): void => {
    if (named[field] === undefined) return
    const source =
      options[field] !== undefined
        ? flagOf(field)
        : context === undefined
          ? variable
          : `${variable}, or ${flagOf(field)}, of context ${context}`
    const parts = urls[field].split(',')
    for (const [at, url] of parts.entries())
      checkURL(parts.length === 1 ? source : `${source}, URL ${at + 1},`, url.trim(), schemes)
  }
  check('endpoint', 'REST_URL', ['https:', 'http:'])
  check('wsEndpoint', 'WS_URL', ['wss:', 'ws:'])
}

/** The credentials in an environment, of which one may be missing; undefined if both are. */
function credentialsOf(
  env: Env,
): { readonly apiKey: string; readonly userSecret: string } | undefined {
  const apiKey = env.API_KEY || env.STREAMS_API_KEY || ''
  const userSecret = env.USER_SECRET || env.API_SECRET || env.STREAMS_API_SECRET || ''
  return apiKey === '' && userSecret === '' ? undefined : { apiKey, userSecret }
}

/** The API key of `localCredentials`, without the engine behind it. A test compares both. */
const LOCAL_KEY = '5f0c2a1e-9d3b-4c77-8a46-1b2e3d4c5f60'

/** Throws if one of the URLs is that of the public service. */
function checkIsLocal(endpoint: string, wsEndpoint = ''): void {
  const url = [endpoint, ...wsEndpoint.split(',')].find(each => networkOf(each) !== undefined)
  if (url !== undefined)
    throw new ValidationError(
      `API_KEY is that of a local data engine, and ${url} is the public service: set REST_URL and WS_URL to the URLs of the engine, or API_KEY to a key of the service`,
    )
}

function networkOf(url: string): NetworkName | undefined {
  const names = Object.keys(endpoints) as NetworkName[]
  return names.find(name => Object.values(endpoints[name]).some(each => url.startsWith(each)))
}

/**
 * The environment, with the variables of `--env-file` added. A variable that is already set keeps
 * its value.
 */
export function environmentOf({ envFile }: ServiceOptions, io: IO): IO['env'] {
  const { env } = io
  if (envFile !== undefined)
    for (const [name, value] of Object.entries(readSecretEnv('--env-file', envFile, io)))
      env[name] ??= value
  return env
}

/** Reads the variables of a file, as `node --env-file` does. */
export function readEnvFile(what: string, path: string): Env {
  if (typeof util.parseEnv !== 'function')
    throw new ValidationError('--env-file needs Node 20.12, or 21.7')
  return util.parseEnv(readText(what, path))
}

/** Matches the names of variables with a secret. */
const SECRET = /KEY|SECRET|PASS|SEED|TOKEN/i

/** Reads the variables of a file. Warns if it has a secret that other users may read. */
function readSecretEnv(what: string, path: string, { stderr }: IO): Env {
  const env = readEnvFile(what, path)
  if (Object.keys(env).some(name => SECRET.test(name))) warnOfOthers(stderr, what, path)
  return env
}

/** Reads the proxy and the certificates for connections to the service. */
function readEgress(
  options: ServiceOptions,
  context: ServiceContext,
  passphrase: string | undefined,
  { stderr }: IO,
): Service['egress'] {
  const proxy = options.proxy ?? context.proxy
  if (proxy?.includes('@'))
    throw new ValidationError(
      '--proxy must have no user name and password, which others could see: set HTTPS_PROXY, and give --proxy env',
    )
  const { ca, cert, key } = options
  const paths = (ca ?? cert ?? key) ? { ca, cert, key } : pick(context)
  const tls = readTLS(paths, '--', stderr)
  return given({ proxy, tls: paths.key && passphrase ? { ...tls, passphrase } : tls })
}

function pick({ ca, cert, key }: ServiceContext): Parameters<typeof readTLS>[0] {
  return { ca, cert, key }
}

/** Reads the files of certificates that the options name. Returns undefined if they name none. */
export function readTLS(
  paths: Readonly<Record<'ca' | 'cert' | 'key', string | undefined>>,
  prefix: string,
  stderr: IO['stderr'] | undefined,
): { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer } | undefined {
  const named = Object.entries(given(paths))
  if (named.length === 0) return undefined
  return Object.fromEntries(
    named.map(([name, path]) => {
      const content = readFile(`${prefix}${name}`, path)
      if (!content.includes('-----BEGIN '))
        throw new ValidationError(
          `${prefix}${name} must be a file in PEM: ${path} has no line "-----BEGIN …"`,
        )
      // Of an encrypted key, the passphrase is the secret.
      if (name === 'key' && !content.includes('ENCRYPTED'))
        warnOfOthers(stderr, `${prefix}${name}`, path)
      return [name, content]
    }),
  )
}

/** The configuration of a client for a service. Throws without credentials. */
export function configOf({ endpoint, wsEndpoint, credentials, egress }: Service): Config {
  if (credentials === undefined)
    throw new ValidationError(
      'API_KEY and USER_SECRET must be set in the environment, or in the file of --env-file or of a context',
    )
  return { ...credentials, endpoint, wsEndpoint, ...egress }
}

/** Makes a client for a service. The plugins in `above` stand above the plugins of the preset. */
export function connect<const Above extends readonly Plugin<never>[] = []>(
  service: Service,
  more: Partial<Config> = {},
  above?: Above,
): Client<DecodedReport, EventsOf<Above>> {
  const config = { ...configOf(service), ...more }
  if (above === undefined) return createClient(config) as Client<DecodedReport, never>
  const plugins = [...above, ...presetOf(config)]
  return createClient({ ...pickOptions(config, clientNames), plugins }) as Client<
    DecodedReport,
    EventsOf<Above>
  >
}
