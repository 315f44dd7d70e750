import { addAbortSignal, type Readable } from 'node:stream'
import type { Command } from 'commander'
import { ValidationError } from '../core/errors.js'
import type { SecretRef, Vault, VaultOptions } from '../local/index.js'
import { number } from './arguments.js'
import { bold } from './view.js'

/** The streams of a command, its environment, and the signal that stops it. */
export interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean }
  readonly out: NodeJS.WriteStream
  /** Writes a line to standard error. */
  warn(text: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  readonly signal: AbortSignal
}

/** The options that every command of a vault has. */
interface InVault {
  readonly vault: string
  readonly insecurePermissions?: boolean
}

interface InNamespace {
  readonly namespace?: string
  readonly owner?: string
}

/** The source of a secret's value: standard input, or an environment variable. */
interface ValueSource {
  readonly env?: string
  /** Allows an empty value. */
  readonly empty?: boolean
}

/** The longest value is shorter: the vault's error can say by how much a value is too long. */
const MAX_VALUE_BYTES = 65_536
const MAX_RESPONSE_BYTES = 1_048_576

/** The description of `--insecure-permissions`. */
export const insecurePermissionsText = 'go on even if others can read or write the files'

/** Adds `vault` and its commands. */
export function addVaultCommands(program: Command, terminal: Terminal): void {
  const { out } = terminal
  const vault = program
    .command('vault')
    .description('store secrets for confidential requests, encrypted, in a directory')
  const add = (name: string, description: string): Command =>
    vault
      .command(name)
      .description(description)
      .option('--vault <dir>', 'its directory', './vault')
      .option('--insecure-permissions', insecurePermissionsText)

  add('init', 'make a vault')
    .option('--nodes <n>', 'how many nodes have a share of the key', number, 3)
    .option('--threshold <n>', 'how many of them release a secret (default: 2, or 1 of 1)', number)
    .option('--owner <address>', 'the default owner of its secrets (default: a random address)')
    .action(async ({ vault: directory, ...options }: VaultOptions & InVault) => {
      await initVault(directory, options, out)
    })

  add('put', 'store a secret; its value is read from standard input, less a line break at its end')
    .argument('<key>')
    .option('--namespace <name>', 'the namespace (default: main)')
    .option('--owner <address>', 'its owner (default: the owner of the vault)')
    .option('--env <name>', 'take the value from this environment variable')
    .option('--empty', 'allow an empty value')
    .action(async (key: string, options: InNamespace & InVault & ValueSource) => {
      const opened = await open(options)
      const value = await readValue(options, terminal)
      if (value.length === 0 && options.empty !== true)
        throw new ValidationError('the value is empty: say --empty if that is meant')
      await opened.put(refOf(key, options), value)
    })

  add('list', 'list the secrets by owner, namespace and key')
    .option('--namespace <name>', 'only those of this namespace')
    .option('--owner <address>', 'only those of this owner')
    .option('--json', 'print NDJSON')
    .action(async (options: InNamespace & InVault & { json?: boolean }) => {
      await listSecrets(await open(options), options, terminal)
    })

  add('rm', 'delete a secret')
    .argument('<key>')
    .option('--namespace <name>', 'the namespace (default: main)')
    .option('--owner <address>', 'its owner (default: the owner of the vault)')
    .action(async (key: string, options: InNamespace & InVault) => {
      const opened = await open(options)
      await opened.remove(refOf(key, options))
    })

  add(
    'decrypt',
    "decrypt a response's body that was encrypted for the vault, from standard input",
  ).action(async (options: InVault) => {
    const opened = await open(options)
    const body = await readInput('the response is read', MAX_RESPONSE_BYTES, terminal)
    out.write(await opened.decryptResponse(body))
  })
}

async function open({ vault, insecurePermissions = false }: InVault): Promise<Vault> {
  const { openVault } = await import('../local/index.js')
  return await openVault(vault, { insecurePermissions })
}

function refOf(key: string, { namespace, owner }: InNamespace): SecretRef {
  return {
    key,
    ...(namespace === undefined ? {} : { namespace }),
    ...(owner === undefined ? {} : { owner }),
  }
}

async function initVault(
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

/** Prints the names of the secrets. Warns of damaged ones and then exits with 1. */
async function listSecrets(
  vault: Vault,
  { namespace, owner, json }: InNamespace & { readonly json?: boolean },
  { out, warn }: Terminal,
): Promise<void> {
  const ofOwner = owner === undefined ? {} : { owner }
  const filter = { ...ofOwner, ...(namespace === undefined ? {} : { namespace }) }
  for (const name of await vault.list(filter))
    out.write(
      json ? `${JSON.stringify(name)}\n` : `0x${name.owner}  ${name.namespace}  ${name.key}\n`,
    )
  const damaged = await vault.listDamaged(ofOwner)
  for (const { error } of damaged) warn(`damaged: ${error.message}`)
  if (damaged.length > 0) process.exitCode = 1
}

/** Reads a value from standard input or the environment, which no shell history records. */
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

/** Removes the line break that `echo` and editors append. */
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
    // The user stopped the command and needs no message, but a script must see a failure.
    if (signal.aborted) process.exitCode = 1
    throw error
  }
  return Buffer.concat(chunks)
}
