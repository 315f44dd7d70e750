import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { checkNumber, checkOptions, type OptionNames } from '../../core/options.js'
import { generateKeys } from '../../crypto/tdh2/index.js'
import { codeOf } from '../files.js'
import { VaultError } from './errors.js'
import { createVaultFolder, fileError, makeFolder, type VaultFolder } from './files.js'
import { MANIFEST_FILE, MAX_NODES, readManifest, writeManifest } from './manifest.js'
import { NODES_FOLDER, writeShare } from './node.js'
import { checkDirectory, openVault, type Vault } from './open-vault.js'
import { createPermissions, type PermissionOptions, permissionNames } from './permissions.js'
import { checkOwner, randomOwner } from './secret-name.js'

/** The options of `createVault`. */
export interface VaultOptions extends PermissionOptions {
  /** How many nodes there are, at most 31. @default 3 */
  readonly nodes?: number
  /** How many nodes it takes to release a secret. @default 2, or 1 if there is one node */
  readonly threshold?: number
  /**
   * The owner of secrets put without one: an address, 40 hexadecimal digits with or without 0x. @default a random one
   */
  readonly owner?: string
}

const names: OptionNames<VaultOptions> = {
  ...permissionNames,
  nodes: true,
  threshold: true,
  owner: true,
}

/**
 * Makes a vault with a fresh key in a directory, which may exist but must not be a vault. Anybody who can read the
 * directory can decrypt its secrets: this is a vault for development, with every node on one machine.
 *
 *     vault.json                             threshold, nodes, owner, public key
 *     nodes/0.json …                         a node's private share, as TDH2's JSON
 *     secrets/<owner>/<namespace>/<key>.json owner, namespace, key, ciphertext
 *
 * In file names an upper-case X is written -x. Names that begin with a dot are drafts of files being written; they can
 * be deleted while no process writes. Only their owner can read the files.
 *
 * @example
 * const vault = await createVault('./vault')
 * await vault.put({ key: 'API_KEY' }, value)
 */
export async function createVault(directory: string, options: VaultOptions = {}): Promise<Vault> {
  const path = checkDirectory(directory)
  const { nodes = 3 } = checkOptions('createVault', options, names)
  checkNumber('nodes', nodes, { min: 1, max: MAX_NODES, whole: true })
  const { threshold = Math.min(2, nodes) } = options
  checkNumber('threshold', threshold, { min: 1, max: nodes, whole: true })
  const owner = options.owner === undefined ? randomOwner() : checkOwner('owner', options.owner)

  const permissions = createPermissions(options)
  const folder = createVaultFolder(path, permissions)
  try {
    await makeFolder(path)
    permissions.checkFolder(path, [])
    await claim(folder)
    const { publicKey, shares } = generateKeys({ threshold, nodes })
    for (const share of shares) await writeShare(folder, share)
    // Last, so that a directory is a vault only when it is complete.
    await writeManifest(folder, { threshold, owner, publicKey })
  } catch (error) {
    throw error instanceof VaultError ? error : fileError(path, 'written', error)
  }
  return openVault(path, { insecurePermissions: options.insecurePermissions === true })
}

/** Reserves the directory: only one process can make the folder of the nodes. */
async function claim(folder: VaultFolder): Promise<void> {
  const { directory } = folder
  const nodes = join(directory, NODES_FOLDER)
  if ((await readManifest(folder).catch(() => true)) !== undefined)
    throw new VaultError(`${directory} is a vault already: it has ${MANIFEST_FILE}`)
  try {
    await mkdir(nodes, { mode: 0o700 })
    await chmod(nodes, 0o700)
  } catch (cause) {
    if (codeOf(cause) !== 'EEXIST') throw cause
    throw new VaultError(
      `${directory} has nodes but no ${MANIFEST_FILE}: it is being made, or incomplete`,
      { cause },
    )
  }
}
