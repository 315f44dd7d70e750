import type { SecretInfo, Vault, VaultOptions } from '@sluice/confidential-http/vault'
import type { Command } from 'commander'
import { ValidationError } from 'sluice/core'
import type { SecretRef, SecretUse } from 'sluice/plugins/confidential-http'
import { addExamples, collect, number, when as whenOf } from '../input/arguments.js'
import { readStdin } from '../input/stdin.js'
import { type IO, type Output, say, warn } from '../io.js'
import { bold } from '../output/colours.js'
import {
  type Add,
  type InVault,
  insecurePermissionsText,
  keyText,
  openVaultOf,
  rollbackStateText,
} from '../vault/command.js'
import { addKeyCommands } from '../vault/keys.js'
import { addHolderCommand } from '../vault/holder.js'

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

/** Where a secret may go, and until when. */
interface PutOptions {
  readonly host: readonly string[]
  readonly method: readonly string[]
  readonly path: readonly string[]
  readonly in: readonly string[]
  readonly customRoots?: boolean
  readonly anywhere?: boolean
  readonly expires?: number
}

/** The secret that encrypts answers, and is put into no request. */
const AES_KEY = 'san_marino_aes_gcm_encryption_key'

/** The longest value is shorter: the vault's error can say by how much a value is too long. */
const MAX_VALUE_BYTES = 65_536
const MAX_RESPONSE_BYTES = 1_048_576

/** Adds `vault` and its commands. */
export function addVaultCommands(program: Command, io: IO): void {
  const vault = program
    .command('vault')
    .description('store secrets for confidential requests, encrypted, in a directory')
  const add: Add = (name, description, example) =>
    addExamples(vault.command(name), example)
      .description(description)
      .option('--vault <dir>', 'its directory', './vault')
      .option('--insecure-permissions', insecurePermissionsText)
      .option('--rollback-state <file>', rollbackStateText)

  add('init', 'make a vault', 'sluice vault init --holders 5 --threshold 3')
    .option('--holders <n>', 'how many holders have a share of the key', number, 3)
    .option('--threshold <n>', 'how many of them release a secret (default: 2, or 1 of 1)', number)
    .option('--owner <address>', 'the default owner of its secrets (default: a random address)')
    .action(async ({ vault: directory, rollbackState: _, ...options }: VaultOptions & InVault) => {
      await initVault(directory, options, io.stdout)
    })
  addPutCommand(add, io)
  addSecretCommands(add, io)
  addKeyCommands(add, io)
  addHolderCommand(vault, io)
}

/** Adds `vault put`. */
function addPutCommand(add: Add, io: IO): void {
  add(
    'put',
    'store a secret; its value is read from standard input, less a line break at its end',
    'sluice vault put apiKey --host api.example.com --in header:Authorization < key.txt',
  )
    .argument('<key>')
    .option('--namespace <name>', 'the namespace (default: main)')
    .option('--owner <address>', 'its owner (default: the owner of the vault)')
    .option(
      '--host <host>',
      'a host it may go to, or a suffix of hosts (.example.com); may be repeated',
      collect,
      [],
    )
    .option(
      '--method <method>',
      'a method it may go with (default: every one); may be repeated',
      collect,
      [],
    )
    .option(
      '--path <path>',
      'a path it may go to, or all below one (/v1/accounts/*; default: every one); may be repeated',
      collect,
      [],
    )
    .option(
      '--in <place>',
      'where in a request: body, header, or header:NAME (default: all); may be repeated',
      collect,
      [],
    )
    .option('--custom-roots', 'allow requests that bring their own root certificates')
    .option('--anywhere', 'allow it to go anywhere')
    .option('--env <name>', 'take the value from this environment variable')
    .option('--empty', 'allow an empty value')
    .option('--expires <when>', 'a date, or a time from now on such as 90d, 12h or 30m', whenOf)
    .action(async (key: string, options: InNamespace & InVault & ValueSource & PutOptions) => {
      const policy = readPolicy(key, options)
      const opened = await openVaultOf(options)
      const { expires } = options
      const value = await readValue(options, io)
      if (value.length === 0 && options.empty !== true)
        throw new ValidationError('the value is empty: say --empty if that is meant')
      await opened.put(refOf(key, options), value, {
        policy,
        ...(expires === undefined ? {} : { expiresAt: expires }),
      })
    })
}

/** Adds the commands for the secrets that a vault has. */
function addSecretCommands(add: Add, io: IO): void {
  add(
    'list',
    'list the secrets by owner, namespace and key, with version, expiry and policy',
    'sluice vault list --json',
  )
    .option('--namespace <name>', 'only those of this namespace')
    .option('--owner <address>', 'only those of this owner')
    .option('--json', 'print NDJSON')
    .action(async (options: InNamespace & InVault & { json?: boolean }) => {
      await listSecrets(await openVaultOf(options), options, io)
    })

  add('get', 'show the versions of a secret, but not its value', 'sluice vault get apiKey')
    .argument('<key>')
    .option('--namespace <name>', 'the namespace (default: main)')
    .option('--owner <address>', 'its owner (default: the owner of the vault)')
    .option('--json', 'print NDJSON')
    .action(async (key: string, options: InNamespace & InVault & { json?: boolean }) => {
      const opened = await openVaultOf(options)
      for (const info of await opened.versions(refOf(key, options)))
        say(io, options.json ? JSON.stringify(info) : versionText(info))
    })

  add(
    'restore',
    'make an older version of a secret the newest one',
    'sluice vault restore apiKey 1',
  )
    .argument('<key>')
    .argument('<version>', 'as get shows it', number)
    .option('--namespace <name>', 'the namespace (default: main)')
    .option('--owner <address>', 'its owner (default: the owner of the vault)')
    .action(async (key: string, older: number, options: InNamespace & InVault) => {
      const opened = await openVaultOf(options)
      const version = await opened.restore(refOf(key, options), older)
      say(io, `version ${version} has the value of version ${older}`)
    })

  add('rm', 'delete a secret with all its versions', 'sluice vault rm apiKey')
    .argument('<key>')
    .option('--namespace <name>', 'the namespace (default: main)')
    .option('--owner <address>', 'its owner (default: the owner of the vault)')
    .action(async (key: string, options: InNamespace & InVault) => {
      const opened = await openVaultOf(options)
      await opened.remove(refOf(key, options))
    })

  add(
    'decrypt',
    "decrypt a response's body that was encrypted for the vault, from standard input",
    'sluice vault decrypt < response.bin',
  )
    .option('--key <file>', keyText)
    .action(async (options: InVault) => {
      const opened = await openVaultOf(options)
      const body = await readStdin(io, 'the response is read', MAX_RESPONSE_BYTES)
      io.stdout.write(await opened.decryptResponse(body))
    })
}

/** The version of a secret, when it was put, when it expires and where it may go. */
function versionText({ version, putAt, expiresAt, policy }: SecretInfo): string {
  const expiry = expiresAt === undefined ? '' : `  expires ${new Date(expiresAt).toISOString()}`
  return `version ${version}  put ${new Date(putAt).toISOString()}${expiry}  ${policyText(policy)}`
}

function policyText(policy: SecretUse | undefined): string {
  if (policy === undefined) return 'policy unknown'
  if (policy === 'anywhere') return policy
  const { hosts, methods, paths, in: places, customRoots } = policy
  const parts = Object.entries({ hosts, methods, paths, in: places })
    .filter(([, list]) => list !== undefined)
    .map(([name, list]) => `${name} ${list?.join(', ')}`)
  return [...parts, ...(customRoots ? ['custom roots'] : [])].join('  ')
}

/** Reads where a secret may go, which has to be said. */
function readPolicy(
  key: string,
  {
    host: hosts,
    method: methods,
    path: paths,
    in: places,
    customRoots = false,
    anywhere,
  }: PutOptions,
): SecretUse {
  const isNamed = hosts.length + methods.length + paths.length + places.length > 0 || customRoots
  if (anywhere === true) {
    if (!isNamed) return 'anywhere'
    throw new ValidationError(
      '--anywhere must not be given with --host, --method, --path, --in or --custom-roots',
    )
  }
  // It encrypts answers, and no request gets it.
  if (!isNamed && key === AES_KEY) return 'anywhere'
  if (hosts.length === 0)
    throw new ValidationError(
      'where the secret may go must be said: --host api.example.com (with --method, --path, --in), or --anywhere',
    )
  return {
    hosts,
    ...(methods.length === 0 ? {} : { methods }),
    ...(paths.length === 0 ? {} : { paths }),
    ...(places.length === 0 ? {} : { in: places }),
    ...(customRoots ? { customRoots } : {}),
  }
}

function refOf(key: string, { namespace, owner }: InNamespace): SecretRef {
  return {
    key,
    ...(namespace === undefined ? {} : { namespace }),
    ...(owner === undefined ? {} : { owner }),
  }
}

async function initVault(directory: string, options: VaultOptions, out: Output): Promise<void> {
  const { createVault } = await import('@sluice/confidential-http/vault')
  const vault = await createVault(directory, options)
  out.write(
    [
      bold(
        `A vault of ${vault.holders.length} holders; ${vault.threshold} of them release a secret`,
      ),
      `directory   ${vault.directory}`,
      `owner       0x${vault.owner}`,
      `public key  ${vault.publicKeyHex}`,
      `writer      ${vault.writerKey}`,
      '',
    ].join('\n'),
  )
}

/** Prints the names of the secrets. Warns of damaged ones and then exits with 1. */
async function listSecrets(
  vault: Vault,
  { namespace, owner, json }: InNamespace & { readonly json?: boolean },
  io: IO,
): Promise<void> {
  const ofOwner = owner === undefined ? {} : { owner }
  const filter = { ...ofOwner, ...(namespace === undefined ? {} : { namespace }) }
  for (const info of await vault.list(filter)) {
    const { owner: of, namespace: space, key } = info
    say(io, json ? JSON.stringify(info) : `0x${of}  ${space}  ${key}  ${versionText(info)}`)
  }
  const damaged = await vault.listDamaged(ofOwner)
  for (const { error } of damaged) warn(io, `damaged: ${error.message}`)
  if (damaged.length > 0) io.exitCode = 1
}

/** Reads a value from standard input or the environment, which no shell history records. */
async function readValue({ env: name }: ValueSource, io: IO): Promise<Buffer | string> {
  if (name === undefined) {
    const how = 'the value is read, where --env names no variable,'
    return withoutLineBreak(await readStdin(io, how, MAX_VALUE_BYTES))
  }
  const value = io.env[name]
  if (value === undefined)
    throw new ValidationError('the variable that --env names must be set in the environment')
  return value
}

/** Removes the line break that `echo` and editors append. */
function withoutLineBreak(value: Buffer): Buffer {
  if (value.at(-1) !== 0x0a) return value
  return value.subarray(0, value.at(-2) === 0x0d ? -2 : -1)
}
