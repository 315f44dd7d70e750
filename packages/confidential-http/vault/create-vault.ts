import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  checkNumber,
  isStreamsError,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from 'sluice/core'
import {
  checkOwner,
  codeOf,
  createPermissions,
  type PermissionOptions,
  permissionRules,
  randomOwner,
} from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import { generateKeys } from 'sluice/tdh2'
import { checkDirectory, fileError, makeFolder, VaultFolder } from './files.js'
import { createWriter, readIdentity, VAULT_FILE, WRITER_FILE, writeIdentity } from './identity.js'
import { MAX_HOLDERS } from './manifest.js'
import { MANIFESTS_FOLDER, writeFirst } from './manifest-log.js'
import { openVault } from './open-vault.js'
import { claimGeneration, SHARES_FOLDER, writeShare } from './share-files.js'
import type { Vault } from './vault.js'

/** The options of `createVault`. */
export interface VaultOptions extends PermissionOptions {
  /** How many holders there are, at most 31. @default 3 */
  readonly holders?: number
  /** How many holders it takes to release a secret. @default 2, or 1 if there is one holder */
  readonly threshold?: number
  /**
   * The owner of secrets that are put without an owner: an address, 40 hexadecimal digits with or
   * without 0x.
   * @default a random one
   */
  readonly owner?: string
}

const schema = {
  ...permissionRules,
  holders: withDefault(3, number({ min: 1, max: MAX_HOLDERS, whole: true })),
  threshold: optional(number({ min: 1, max: MAX_HOLDERS, whole: true })),
  owner: optional(checkOwner),
} satisfies Schema<VaultOptions>

/**
 * Makes a vault with a fresh key in a directory, which may exist but must not be a vault. Every
 * holder is on this machine, so anybody who can read the directory can decrypt its secrets. Use
 * such a vault for development only.
 *
 *     vault.json             owner, and the public key that verifies manifests
 *     writer.json            the secret key that signs manifests
 *     manifests/1.json …     threshold, holders, public key, versions of secrets;
 *                            the manifest with the highest number counts
 *     shares/1/0.json …      a holder's private share of a generation, as TDH2's JSON
 *     secrets/<owner>/<namespace>/<key>.<digest>.json
 *                            owner, namespace, key, ciphertext
 *
 * In file names an upper-case X is written -x. Files whose names begin with a dot are drafts; they
 * can be deleted while no process writes. Only their owner can read the files.
 *
 * @example
 * const vault = await createVault('./vault')
 * await vault.put({ key: 'API_KEY' }, value, { policy: { hosts: ['api.example.com'] } })
 */
export async function createVault(directory: string, options: VaultOptions = {}): Promise<Vault> {
  const path = checkDirectory(directory)
  const { insecurePermissions, ...given } = readOptions('createVault', options, schema)
  const { holders, threshold = Math.min(2, holders), owner = randomOwner() } = given
  checkNumber('threshold', threshold, { min: 1, max: holders, whole: true })
  const permissions = createPermissions({ insecurePermissions })
  const folder = new VaultFolder(path, permissions)
  try {
    await makeFolder(path)
    permissions.checkFolder(path, [])
    await claim(folder)
    const { publicKey, shares } = generateKeys({ threshold, nodes: holders })
    const generation = await claimGeneration(folder, 0)
    for (const share of shares) await writeShare(folder, generation, share)
    await makeFolder(join(path, MANIFESTS_FOLDER))
    const { writer, text } = createWriter()
    await folder.write(WRITER_FILE, text)
    await writeFirst(folder, writer, { generation, threshold, publicKey, secrets: [] })
    // This file is written last, so that a directory is a vault only when it is complete.
    await writeIdentity(folder, { owner, writer: writer.publicKey })
  } catch (error) {
    throw isStreamsError(error) ? error : fileError(path, 'written', error)
  }
  return openVault(path, { insecurePermissions })
}

/** Reserves the directory: only one process can make the folder of the shares. */
async function claim(folder: VaultFolder): Promise<void> {
  const { directory } = folder
  const holders = join(directory, SHARES_FOLDER)
  if ((await readIdentity(folder).catch(() => true)) !== undefined)
    throw new VaultError(`${directory} is a vault already: it has ${VAULT_FILE}`)
  try {
    await mkdir(holders, { mode: 0o700 })
    await chmod(holders, 0o700)
  } catch (cause) {
    if (codeOf(cause) !== 'EEXIST') throw cause
    throw new VaultError(
      `${directory} has holders but no ${VAULT_FILE}: it is being made, or incomplete`,
      { cause },
    )
  }
}
