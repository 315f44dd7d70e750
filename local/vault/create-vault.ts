import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { checkNumber, checkOptions } from '../../core/options.js'
import { generateKeys } from '../../crypto/tdh2/index.js'
import { codeOf } from '../files.js'
import { VaultError } from './errors.js'
import { fileError, makeFolder } from './files.js'
import { hexOf, MANIFEST_FILE, MAX_NODES, readManifest, writeManifest } from './manifest.js'
import { NODES_FOLDER, writeShare } from './node.js'
import { checkDirectory, openVault, type Vault } from './open-vault.js'
import { createPermissions, type PermissionOptions, type Permissions } from './permissions.js'
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
  const folder = checkDirectory(directory)
  const { nodes = 3 } = checkOptions('options', options)
  checkNumber('nodes', nodes, { min: 1, max: MAX_NODES, whole: true })
  const { threshold = Math.min(2, nodes) } = options
  checkNumber('threshold', threshold, { min: 1, max: nodes, whole: true })
  const owner = options.owner === undefined ? randomOwner() : checkOwner('owner', options.owner)

  const permissions = createPermissions(options)
  try {
    await makeFolder(folder)
    permissions.checkFolder(folder, [])
    await claim(folder, permissions)
    const { publicKey, shares } = generateKeys({ threshold, nodes })
    for (const share of shares) await writeShare(folder, share)
    // Last, so that a directory is a vault only when it is complete.
    await writeManifest(folder, { threshold, owner, publicKey, publicKeyHex: hexOf(publicKey) })
  } catch (error) {
    throw error instanceof VaultError ? error : fileError(folder, 'written', error)
  }
  return openVault(folder, { insecurePermissions: options.insecurePermissions === true })
}

/** Reserves the directory: only one process can make the folder. */
async function claim(folder: string, permissions: Permissions): Promise<void> {
  if ((await readManifest(folder, permissions).catch(() => true)) !== undefined)
    throw new VaultError(`${folder} is a vault already: it has ${MANIFEST_FILE}`)
  try {
    await mkdir(join(folder, NODES_FOLDER), { mode: 0o700 })
    await chmod(join(folder, NODES_FOLDER), 0o700)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
    throw new VaultError(
      `${folder} has nodes but no ${MANIFEST_FILE}: it is being made, or incomplete`,
      { cause: error },
    )
  }
}
