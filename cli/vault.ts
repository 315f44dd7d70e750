import { addAbortSignal, type Readable } from 'node:stream'
import { ValidationError } from '../core/errors.js'
import type { SecretRef, Vault, VaultOptions } from '../local/index.js'
import { bold } from './view.js'

/** Where a command reads and writes, and what ends it early. */
export interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean }
  readonly out: NodeJS.WriteStream
  /** Writes a line for people, not for what reads the output. */
  warn(text: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  readonly signal: AbortSignal
}

/** A vault, and whether it is opened where others may read or write its files. */
export interface VaultPlace {
  readonly directory: string
  readonly insecurePermissions: boolean
}

/** Where a secret's value comes from: standard input, unless a variable is named. */
export interface ValueSource {
  readonly env?: string
  /** Whether an empty value is meant. */
  readonly empty?: boolean
}

/** The longest value, and room to tell how much too long another one is. */
const MAX_VALUE_BYTES = 65_536
const MAX_RESPONSE_BYTES = 1_048_576

async function open({ directory, insecurePermissions }: VaultPlace): Promise<Vault> {
  const { openVault } = await import('../local/index.js')
  return await openVault(directory, { insecurePermissions })
}

/** Makes a vault and tells what to know of it. */
export async function initVault(
  directory: string,
  options: VaultOptions,
  out: NodeJS.WriteStream,
): Promise<void> {
  const { createVault } = await import('../local/index.js')
  const vault = await createVault(directory, options)
  out.write(
    [
      bold(`A vault of ${vault.nodes.length} nodes; ${vault.threshold} of them release a secret`),
      `directory   ${vault.directory}`,
      `owner       0x${vault.owner}`,
      `public key  ${vault.publicKeyHex}`,
      '',
    ].join('\n'),
  )
}

/** Keeps a secret whose value is on standard input or in the environment, where no shell writes it down. */
export async function putSecret(
  place: VaultPlace,
  name: SecretRef,
  source: ValueSource,
  terminal: Terminal,
): Promise<void> {
  const vault = await open(place)
  const value = await readValue(source, terminal)
  if (value.length === 0 && source.empty !== true)
    throw new ValidationError('the value is empty: say --empty if that is meant')
  await vault.put(name, value)
}

/** Prints the names of the secrets; warns of those that are damaged, and then ends with 1. */
export async function listSecrets(
  place: VaultPlace,
  filter: { readonly owner?: string; readonly namespace?: string },
  asJSON: boolean,
  { out, warn }: Terminal,
): Promise<void> {
  const vault = await open(place)
  for (const name of await vault.list(filter)) {
    const { owner, namespace, key } = name
    out.write(asJSON ? `${JSON.stringify(name)}\n` : `0x${owner}  ${namespace}  ${key}\n`)
  }
  const damaged = await vault.listDamaged(filter.owner === undefined ? {} : { owner: filter.owner })
  for (const { error } of damaged) warn(`damaged: ${error.message}`)
  if (damaged.length > 0) process.exitCode = 1
}

/** Forgets a secret. */
export async function removeSecret(place: VaultPlace, name: SecretRef): Promise<void> {
  const vault = await open(place)
  await vault.remove(name)
}

/** Writes what an encrypted response on standard input says, byte for byte. */
export async function decryptResponse(place: VaultPlace, terminal: Terminal): Promise<void> {
  const vault = await open(place)
  const body = await readInput('the response is read', MAX_RESPONSE_BYTES, terminal)
  terminal.out.write(await vault.decryptResponse(body))
}

async function readValue({ env: name }: ValueSource, terminal: Terminal): Promise<Buffer | string> {
  if (name === undefined) {
    const how = 'the value is read, where --env names no variable,'
    return withoutLineBreak(await readInput(how, MAX_VALUE_BYTES, terminal))
  }
  const value = terminal.env[name]
  if (value === undefined)
    throw new ValidationError('the variable that --env names must be set in the environment')
  return value
}

/** What `echo` and editors put behind it is not part of a value. */
function withoutLineBreak(value: Buffer): Buffer {
  if (value.at(-1) !== 0x0a) return value
  return value.subarray(0, value.at(-2) === 0x0d ? -2 : -1)
}

async function readInput(
  what: string,
  maxBytes: number,
  { input, signal }: Terminal,
): Promise<Buffer> {
  if (input.isTTY) throw new ValidationError(`${what} from standard input: pipe it in`)
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of addAbortSignal(signal, input) as AsyncIterable<Uint8Array>) {
      size += chunk.byteLength
      if (size > maxBytes)
        throw new ValidationError(`standard input must have at most ${maxBytes} bytes`)
      chunks.push(chunk)
    }
  } catch (error) {
    // Who ended this early need not be told, but a script must not take it for done.
    if (signal.aborted) process.exitCode = 1
    throw error
  }
  return Buffer.concat(chunks)
}
