import type { SecretInfo } from '@sluice/confidential-http/vault'
import { ValidationError } from 'sluice/core'
import type { SecretRef, SecretUse } from 'sluice/plugins/confidential-http'
import { type AddCommand, defineCommand, given, groupCommands, type Values } from '../command.js'
import { readStdin } from '../input/files.js'
import { type IO, say, warn } from '../io.js'
import { bold } from '../output/colours.js'
import { addHolderCommand } from './vault-holder.js'
import {
  addRecoverCommand,
  addReshareCommand,
  addRevokeCommand,
  addRotateCommand,
  addStatusCommand,
} from './vault-keys.js'
import { keyOption, openVaultOf, vaultOptions } from './vault-options.js'

/**
 * The key of the secret that encrypts responses. No request carries this secret, so it needs no
 * policy.
 */
const AES_KEY = 'san_marino_aes_gcm_encryption_key'
/**
 * The most bytes that are read as a value. The limit of the vault is lower, so that the vault's
 * error can say by how much a value is too long.
 */
const MAX_VALUE_BYTES = 65_536
/** The most bytes of an encrypted response on standard input. */
const MAX_RESPONSE_BYTES = 1_048_576

/** The options that identify a secret together with its key. */
const secretOptions = {
  ...vaultOptions,
  namespace: { is: 'name', help: 'the namespace (default: main)' },
  owner: { is: 'address', help: 'its owner (default: the owner of the vault)' },
} as const
/** The options of a policy, which says where a secret may be sent. */
const policyOptions = {
  host: {
    is: 'list',
    value: 'host',
    help: 'a host it may go to, or a suffix of hosts (.example.com); may be repeated',
  },
  method: {
    is: 'list',
    value: 'method',
    help: 'a method it may go with (default: every one); may be repeated',
  },
  path: {
    is: 'list',
    value: 'path',
    help: 'a path it may go to, or all below one (/v1/accounts/*; default: every one); may be repeated',
  },
  in: {
    is: 'list',
    value: 'place',
    help: 'where in a request: body, header, or header:NAME (default: all); may be repeated',
  },
  header: {
    is: 'list',
    value: 'name',
    help: 'a header that requests may carry besides common ones, if there is a --method or a --path; may be repeated',
  },
  customRoots: { help: 'allow requests that bring their own root certificates' },
  anywhere: {
    help: 'allow it to go anywhere',
    excludes: ['host', 'method', 'path', 'in', 'header', 'customRoots'],
  },
} as const

const addInitCommand = defineCommand({
  name: 'init',
  help: 'make a vault',
  options: {
    ...vaultOptions,
    holders: { is: 'number', help: 'how many holders have a share of the key', default: 3 },
    threshold: { is: 'number', help: 'how many of them release a secret (default: 2, or 1 of 1)' },
    owner: { is: 'address', help: 'the default owner of its secrets (default: a random address)' },
  },
  examples: ['sluice vault init --holders 5 --threshold 3'],
  async run({ vault: directory, rollbackState: _, ...options }, io) {
    const { createVault } = await import('@sluice/confidential-http/vault')
    const vault = await createVault(directory, options)
    const lines = [
      bold(
        `A vault of ${vault.holders.length} holders; ${vault.threshold} of them release a secret`,
      ),
      `directory   ${vault.directory}`,
      `owner       0x${vault.owner}`,
      `public key  ${vault.publicKeyHex}`,
      `writer      ${vault.writerKey}`,
    ]
    say(io, lines.join('\n'))
  },
})

const addPutCommand = defineCommand({
  name: 'put',
  help: 'store a secret; its value is read from standard input, less a line break at its end',
  arguments: { '<key>': '' },
  options: {
    ...secretOptions,
    ...policyOptions,
    env: { is: 'name', help: 'take the value from this environment variable' },
    empty: { help: 'allow an empty value' },
    expires: { is: 'future', help: 'a date, or a time from now on such as 90d, 12h or 30m' },
  },
  examples: ['sluice vault put apiKey --host api.example.com --in header:Authorization < key.txt'],
  async run(options, io, { key }) {
    const policy = readPolicy(key, options)
    const vault = await openVaultOf(options)
    const value = await readValue(options.env, io)
    if (value.length === 0 && options.empty !== true)
      throw new ValidationError('the value is empty: say --empty if that is meant')
    await vault.put(refOf(key, options), value, {
      policy,
      ...given({ expiresAt: options.expires }),
    })
  },
})

const addListCommand = defineCommand({
  name: 'list',
  help: 'list the secrets by owner, namespace and key, with version, expiry and policy',
  options: {
    ...vaultOptions,
    namespace: { is: 'name', help: 'only those of this namespace' },
    owner: { is: 'address', help: 'only those of this owner' },
    json: { help: 'print NDJSON' },
  },
  examples: ['sluice vault list --json'],
  async run(options, io) {
    const { namespace, owner, json } = options
    const vault = await openVaultOf(options)
    for (const info of await vault.list(given({ owner, namespace }))) {
      const name = `0x${info.owner}  ${info.namespace}  ${info.key}`
      say(io, json ? JSON.stringify(info) : `${name}  ${versionText(info)}`)
    }
    const damaged = await vault.listDamaged(given({ owner }))
    for (const { error } of damaged) warn(io, `damaged: ${error.message}`)
    if (damaged.length > 0) io.exitCode = 1
  },
})

const addGetCommand = defineCommand({
  name: 'get',
  help: 'show the versions of a secret, but not its value',
  arguments: { '<key>': '' },
  options: { ...secretOptions, json: { help: 'print NDJSON' } },
  examples: ['sluice vault get apiKey'],
  async run(options, io, { key }) {
    const vault = await openVaultOf(options)
    for (const info of await vault.versions(refOf(key, options)))
      say(io, options.json ? JSON.stringify(info) : versionText(info))
  },
})

const addRestoreCommand = defineCommand({
  name: 'restore',
  help: 'make an older version of a secret the newest one',
  arguments: { '<key>': '', '<version>': { help: 'as get shows it', is: 'number' } },
  options: secretOptions,
  examples: ['sluice vault restore apiKey 1'],
  async run(options, io, { key, version: older }) {
    const vault = await openVaultOf(options)
    const version = await vault.restore(refOf(key, options), older)
    say(io, `version ${version} has the value of version ${older}`)
  },
})

const addRemoveCommand = defineCommand({
  name: 'rm',
  help: 'delete a secret with all its versions',
  arguments: { '<key>': '' },
  options: secretOptions,
  examples: ['sluice vault rm apiKey'],
  async run(options, _io, { key }) {
    const vault = await openVaultOf(options)
    await vault.remove(refOf(key, options))
  },
})

const addDecryptCommand = defineCommand({
  name: 'decrypt',
  help: "decrypt a response's body that was encrypted for the vault, from standard input",
  options: { ...vaultOptions, ...keyOption },
  examples: ['sluice vault decrypt < response.bin'],
  async run(options, io) {
    const vault = await openVaultOf(options)
    const body = await readStdin(io, 'the response is read', MAX_RESPONSE_BYTES)
    io.stdout.write(await vault.decryptResponse(body))
  },
})

/** Adds `vault` and its commands. */
export const addVaultCommands: AddCommand = groupCommands(
  'vault',

  [
    addInitCommand,
    addPutCommand,
    addListCommand,
    addGetCommand,
    addRestoreCommand,
    addRemoveCommand,
    addDecryptCommand,
    addReshareCommand,
    addRotateCommand,
    addRecoverCommand,
    addRevokeCommand,
    addStatusCommand,
    addHolderCommand,
  ],
)

/**
 * Describes a version of a secret: when it was stored, when it expires and where it may be sent.
 */
function versionText({ version, putAt, expiresAt, policy }: SecretInfo): string {
  const expiry = expiresAt === undefined ? '' : `  expires ${new Date(expiresAt).toISOString()}`
  return `version ${version}  put ${new Date(putAt).toISOString()}${expiry}  ${policyText(policy)}`
}

function policyText(policy: SecretUse | undefined): string {
  if (policy === undefined) return 'policy unknown'
  if (policy === 'anywhere') return policy
  const { customRoots, ...lists } = policy
  const parts = ['hosts', 'methods', 'paths', 'in', 'headers'].flatMap(name => {
    const list = lists[name as keyof typeof lists]
    return list === undefined ? [] : `${name} ${list.join(', ')}`
  })
  return [...parts, ...(customRoots ? ['custom roots'] : [])].join('  ')
}

/**
 * Reads the policy of a secret. The user must give one, except for the secret that encrypts
 * responses.
 */
function readPolicy(key: string, options: Values<typeof policyOptions>): SecretUse {
  const { host: hosts, method, path, in: places, header, customRoots } = options
  const isNamed = [hosts, method, path, places, header].some(({ length }) => length > 0)
  if (options.anywhere || (!isNamed && !customRoots && key === AES_KEY)) return 'anywhere'
  if (hosts.length === 0)
    throw new ValidationError(
      'where the secret may go must be said: --host api.example.com (with --method, --path, --in, --header), or --anywhere',
    )
  const some = (list: readonly string[]) => (list.length === 0 ? undefined : list)
  return {
    hosts,
    ...given({ methods: some(method), paths: some(path), in: some(places) }),
    ...given({ headers: some(header), customRoots }),
  }
}

function refOf(key: string, { namespace, owner }: Values<typeof secretOptions>): SecretRef {
  return { key, ...given({ namespace, owner }) }
}

/**
 * Reads a value from the environment, or from standard input without the line break at its end. The
 * value is not an argument, because the shell would record it in its history.
 */
async function readValue(name: string | undefined, io: IO): Promise<Buffer | string> {
  if (name === undefined) {
    const how = 'the value is read, where --env names no variable,'
    const value = await readStdin(io, how, MAX_VALUE_BYTES)
    if (value.at(-1) !== 0x0a) return value
    return value.subarray(0, value.at(-2) === 0x0d ? -2 : -1)
  }
  const value = io.env[name]
  if (value === undefined)
    throw new ValidationError('the variable that --env names must be set in the environment')
  return value
}
