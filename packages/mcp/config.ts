import { closeSync, openSync, readSync, realpathSync, statSync } from 'node:fs'
import * as util from 'node:util'
import { endpoints } from 'sluice'
import { ValidationError } from 'sluice/core'
import { checkNodeURL, checkURL, connectNode, type NodeClient } from 'sluice/internal'
import type { SignerSet, Signers } from 'sluice/plugins/verify'
import { verify } from 'sluice/plugins/verify'
import { onchainSigners, verifierProxies } from 'sluice/plugins/verify/onchain'

/** The networks of the service. */
export type NetworkName = keyof typeof endpoints

/** What the server is told at its start. */
export interface Settings {
  readonly endpoint: string
  readonly wsEndpoint: string
  /** Undefined at other URLs, such as the URL of a local data engine. */
  readonly network: NetworkName | undefined
  /** Undefined if the environment lacks one of the two. */
  readonly credentials: { readonly apiKey: string; readonly userSecret: string } | undefined
  /** Undefined if nothing says who may sign. Then no price is told. */
  readonly signers: Signers | undefined
  /** The real path of the directory of recordings. */
  readonly recordings: string | undefined
  /** The decimals of feeds whose decimals are not known. */
  readonly decimals: number | undefined
}

type Env = Readonly<Record<string, string | undefined>>

/** Each setting is an option of the command, and a variable of the environment. */
const names = {
  signers: 'SLUICE_SIGNERS',
  f: 'SLUICE_F',
  onchain: 'SLUICE_ONCHAIN',
  verifier: 'SLUICE_VERIFIER',
  recordings: 'SLUICE_RECORDINGS',
  decimals: 'SLUICE_DECIMALS',
} as const
type Name = keyof typeof names

/** The text of `--help`. */
export const help = `Usage: sluice-mcp [options]

An MCP server on standard input and output. It tells verified prices of the data-streams service.

Options, each with its variable of the environment:
  --signers LIST|FILE  SLUICE_SIGNERS     the addresses that may sign, or a JSON file of them
  --f N                SLUICE_F           how many of the listed signers may be faulty
  --onchain URL        SLUICE_ONCHAIN     an Ethereum node, which is asked for the signers
  --verifier ADDRESS   SLUICE_VERIFIER    the verifier contract; default: that of the node's network
  --recordings DIR     SLUICE_RECORDINGS  the only directory whose recordings may be read
  --decimals N         SLUICE_DECIMALS    the decimals of feeds whose decimals are not known
  --mainnet, --testnet                    the service; default: REST_URL and WS_URL, or the testnet
  --help, --version

API_KEY and USER_SECRET are read from the environment alone.
`

/** Reads the options and the environment. Throws a ValidationError that names what is wrong. */
export function readSettings(args: readonly string[], env: Env): Settings {
  const options = parseOptions(args)
  const text = (name: Name): string | undefined => options[name] ?? (env[names[name]] || undefined)
  const label = (name: Name): string => (options[name] === undefined ? names[name] : `--${name}`)
  const apiKey = env.API_KEY || env.STREAMS_API_KEY || ''
  const userSecret = env.USER_SECRET || env.API_SECRET || env.STREAMS_API_SECRET || ''
  const urls = urlsOf(options, env)
  const signers = readSigners(text, label)
  // The plugin checks the sets, so a wrong one is an error at the start.
  if (signers !== undefined) verify({ signers })
  return {
    ...urls,
    network: networkOf(urls.endpoint),
    credentials: apiKey && userSecret ? { apiKey, userSecret } : undefined,
    signers,
    recordings: readFolder(text('recordings'), label('recordings')),
    decimals: readWhole(text('decimals'), label('decimals'), 0, 255),
  }
}

type Options = { readonly [Each in Name]?: string } & {
  readonly mainnet?: boolean
  readonly testnet?: boolean
}

function parseOptions(args: readonly string[]): Options {
  const texts = Object.fromEntries(Object.keys(names).map(name => [name, { type: 'string' }]))
  try {
    const options = { ...texts, mainnet: { type: 'boolean' }, testnet: { type: 'boolean' } }
    return util.parseArgs({ args: [...args], options: options as util.ParseArgsConfig['options'] })
      .values as Options
  } catch (thrown) {
    throw new ValidationError((thrown as Error).message.split('.')[0] ?? 'wrong options')
  }
}

function urlsOf(
  { mainnet, testnet }: Options,
  env: Env,
): { readonly endpoint: string; readonly wsEndpoint: string } {
  if (mainnet && testnet) throw new ValidationError('--mainnet and --testnet exclude each other')
  if (mainnet || testnet) return endpoints[mainnet ? 'mainnet' : 'testnet']
  const { endpoint, wsEndpoint } = endpoints.testnet
  const given = {
    endpoint: env.REST_URL || undefined,
    wsEndpoint: env.WS_URL || undefined,
  }
  if (given.endpoint !== undefined) checkURL('REST_URL', given.endpoint, ['https:', 'http:'])
  if (given.wsEndpoint !== undefined) checkURL('WS_URL', given.wsEndpoint, ['wss:', 'ws:'])
  return { endpoint: given.endpoint ?? endpoint, wsEndpoint: given.wsEndpoint ?? wsEndpoint }
}

function networkOf(url: string): NetworkName | undefined {
  return (Object.keys(endpoints) as NetworkName[]).find(name =>
    url.startsWith(endpoints[name].endpoint),
  )
}

function readWhole(
  text: string | undefined,
  label: string,
  min: number,
  max: number,
): number | undefined {
  if (text === undefined) return undefined
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw new ValidationError(`${label} must be a whole number from ${min} to ${max}`)
}

function readFolder(path: string | undefined, label: string): string | undefined {
  if (path === undefined) return undefined
  try {
    const real = realpathSync(path)
    if (statSync(real).isDirectory()) return real
  } catch {}
  throw new ValidationError(`${label} must be a directory that can be read`)
}

function readSigners(
  text: (name: Name) => string | undefined,
  label: (name: Name) => string,
): Signers | undefined {
  const [signers, onchain, verifier] = [text('signers'), text('onchain'), text('verifier')]
  const f = readWhole(text('f'), label('f'), 1, 10)
  if (signers !== undefined && onchain !== undefined)
    throw new ValidationError(`${label('signers')} and ${label('onchain')} exclude each other`)
  if (f !== undefined && signers === undefined)
    throw new ValidationError(`${label('f')} needs ${label('signers')}`)
  if (verifier !== undefined && onchain === undefined)
    throw new ValidationError(`${label('verifier')} needs ${label('onchain')}`)
  if (onchain !== undefined)
    return signersAt(connectNode(checkNodeURL(label('onchain'), onchain), NODE_TIMEOUT), verifier)
  if (signers === undefined) return undefined
  if (!/^0x[0-9a-f]+\s*(,|$)/i.test(signers.trim()))
    return readSignerFile(signers, f, label('signers'), label('f'))
  if (f === undefined)
    throw new ValidationError(`${label('f')} must be given with a list of signers`)
  return { signers: signers.split(',').map(each => each.trim()), f }
}

/** The most bytes of a file of signers. */
const MAX_BYTES = 1_048_576

function readSignerFile(
  path: string,
  f: number | undefined,
  label: string,
  labelOfF: string,
): SignerSet | readonly SignerSet[] {
  if (f !== undefined)
    throw new ValidationError(`${labelOfF} goes with a list of signers: a file has its own`)
  let text: string
  try {
    const bytes = readStart(path, MAX_BYTES + 1)
    if (bytes.length > MAX_BYTES) throw new ValidationError('too large')
    text = bytes.toString()
  } catch {
    throw new ValidationError(
      `${label} must be addresses, or a file that can be read of at most ${MAX_BYTES} bytes`,
    )
  }
  try {
    return JSON.parse(text) as SignerSet
  } catch {
    throw new ValidationError(`${label} must be a file of JSON, as serve --signers-out writes it`)
  }
}

/** Reads the first bytes of a file. A device such as /dev/zero has no end, and a pipe no size. */
function readStart(path: string, count: number): Buffer {
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(count)
    let length = 0
    for (let read = 1; read > 0 && length < count; length += read)
      read = readSync(file, bytes, length, count - length, null)
    return bytes.subarray(0, length)
  } finally {
    closeSync(file)
  }
}

/** The most milliseconds that a request to a node may take. */
const NODE_TIMEOUT = 5000

/** The signers that a verifier contract names. The first look-up asks the node for its chain. */
function signersAt(client: NodeClient, verifier: string | undefined): Signers {
  const create = (address: string) =>
    onchainSigners({ client, verifier: address, timeout: NODE_TIMEOUT })
  if (verifier !== undefined) return create(verifier)
  let known: ReturnType<typeof create> | undefined
  return async configDigest => {
    known ??= create(await findVerifier(client))
    return known(configDigest)
  }
}

async function findVerifier(client: NodeClient): Promise<string> {
  const chainID = Number(await client.request({ method: 'eth_chainId', params: [] }))
  const found = verifierProxies.find(each => each.chainID === chainID)
  if (found !== undefined) return found.address
  throw new ValidationError(
    `SLUICE_VERIFIER must be given: no verifier of chain ${chainID} is known`,
  )
}
