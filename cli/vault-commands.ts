import type { Command } from 'commander'
import type { VaultOptions } from '../local/index.js'
import { number } from './number.js'
import {
  decryptResponse,
  initVault,
  listSecrets,
  putSecret,
  removeSecret,
  type Terminal,
  type ValueSource,
} from './vault.js'

interface InVault {
  readonly vault: string
  readonly insecurePermissions?: boolean
}

/** What `--insecure-permissions` says of itself. */
export const insecurePermissionsText = 'go on where others may read or write the files'

interface InNamespace {
  readonly namespace?: string
  readonly owner?: string
}

/** Adds `vault` and what can be done with one. */
export function addVaultCommands(program: Command, terminal: Terminal): void {
  const { out } = terminal
  const vault = program
    .command('vault')
    .description('keep secrets for confidential requests, encrypted, in a directory')

  vault
    .command('init')
    .description('make a vault')
    .option('--vault <dir>', 'its directory', './vault')
    .option('--insecure-permissions', insecurePermissionsText)
    .option('--nodes <n>', 'how many nodes hold a share of the key', number, 3)
    .option('--threshold <n>', 'how many of them release a secret (default: 2, or 1 of 1)', number)
    .option(
      '--owner <address>',
      'whose secrets it keeps unless told otherwise (default: a random address)',
    )
    .action(async ({ vault: directory, ...options }: VaultOptions & InVault) => {
      await initVault(directory, options, out)
    })

  vault
    .command('put')
    .description(
      'keep a secret; its value is read from standard input, less a line break at its end',
    )
    .argument('<key>')
    .option('--vault <dir>', 'its directory', './vault')
    .option('--insecure-permissions', insecurePermissionsText)
    .option('--namespace <name>', 'the namespace (default: main)')
    .option('--owner <address>', 'whose it is (default: the owner of the vault)')
    .option('--env <name>', 'take the value from this environment variable')
    .option('--empty', 'keep an empty value')
    .action(async (key: string, options: InNamespace & InVault & ValueSource) => {
      const { env, empty, vault: directory, insecurePermissions = false, ...where } = options
      const source = { ...(env === undefined ? {} : { env }), ...(empty ? { empty } : {}) }
      await putSecret({ directory, insecurePermissions }, { key, ...where }, source, terminal)
    })

  vault
    .command('list')
    .description('list the secrets by owner, namespace and key')
    .option('--vault <dir>', 'its directory', './vault')
    .option('--insecure-permissions', insecurePermissionsText)
    .option('--namespace <name>', 'only those of this namespace')
    .option('--owner <address>', 'only those of this owner')
    .option('--json', 'print NDJSON')
    .action(async (options: InNamespace & InVault & { json?: boolean }) => {
      const {
        vault: directory,
        insecurePermissions = false,
        json: asJSON = false,
        ...filter
      } = options
      await listSecrets({ directory, insecurePermissions }, filter, asJSON, terminal)
    })

  vault
    .command('rm')
    .description('forget a secret')
    .argument('<key>')
    .option('--vault <dir>', 'its directory', './vault')
    .option('--insecure-permissions', insecurePermissionsText)
    .option('--namespace <name>', 'the namespace (default: main)')
    .option('--owner <address>', 'whose it is (default: the owner of the vault)')
    .action(async (key: string, options: InNamespace & InVault) => {
      const { vault: directory, insecurePermissions = false, ...where } = options
      await removeSecret({ directory, insecurePermissions }, { key, ...where })
    })

  vault
    .command('decrypt')
    .description("decrypt a response's body that was encrypted for the vault, from standard input")
    .option('--vault <dir>', 'its directory', './vault')
    .option('--insecure-permissions', insecurePermissionsText)
    .action(async ({ vault: directory, insecurePermissions = false }: InVault) => {
      await decryptResponse({ directory, insecurePermissions }, terminal)
    })
}
