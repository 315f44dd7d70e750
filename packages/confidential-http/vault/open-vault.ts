import { resolve } from 'node:path'
import {
  checkNumber,
  checkOptions,
  checkText,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import {
  boxKeys,
  createPermissions,
  type PermissionOptions,
  parseKey,
  permissionNames,
} from 'sluice/internal'
import type { SecretName } from 'sluice/plugins/confidential-http'
import { VaultError } from 'sluice/plugins/confidential-http'
import { ActLog } from './act-log.js'
import {
  type ChangingVault,
  notifyHolders,
  type ReshareOptions,
  recover,
  removeDropped,
  reshare,
  rotate,
} from './change-key.js'
import { decryptResponse } from './decrypt-response.js'
import { createVaultFolder } from './files.js'
import { readIdentity, VAULT_FILE } from './identity.js'
import { hexOf, type SignedManifest } from './manifest.js'
import { type Change, createManifestLog, MANIFESTS_FOLDER } from './manifest-log.js'
import { createSecretStore, SECRETS_FOLDER } from './secret-store.js'
import { createSecrets } from './secrets.js'
import { createSeen } from './seen.js'
import { checkShareFiles } from './share-files.js'
import type { Vault } from './vault.js'
import { createStates } from './vault-state.js'
import { checkWriterFile, readWriter } from './writer.js'

/** The options of `openVault`. */
export interface OpenVaultOptions extends PermissionOptions {
  /**
   * A file that remembers the newest state of the vault, best on another disk: an older state is rejected (`ROLLBACK`), whenever
   * this process was started. @default none: remembered while the process runs
   */
  readonly rollbackState?: string
  /**
   * The secret key that holders which are processes know this process by, 64 hexadecimal digits: `readKeyFile('enclave.key')`.
   * @default none: such holders release nothing
   */
  readonly callerSecretKey?: string
}

const names: OptionNames<OpenVaultOptions> = {
  ...permissionNames,
  rollbackState: true,
  callerSecretKey: true,
}

const reshareNames: OptionNames<ReshareOptions> = {
  holders: true,
  threshold: true,
  addresses: true,
  shareLifetime: true,
}

/**
 * Opens a vault. A missing or wrong share is found only when its holder is asked, as the other holders may suffice. Rejects
 * with DataStreamsError (`PERMISSIONS`) if others may write in its folders, or read or write the share of any holder.
 *
 * @example
 * const vault = await openVault('./vault')
 * await vault.put({ key: 'API_KEY' }, value, { policy: { hosts: ['api.example.com'] } })
 */
export async function openVault(directory: string, options: OpenVaultOptions = {}): Promise<Vault> {
  const path = checkDirectory(directory)
  const { rollbackState, callerSecretKey, ...permissionOptions } = checkOptions(
    'openVault',
    options,
    names,
  )
  const permissions = createPermissions(permissionOptions)
  const folder = createVaultFolder(path, permissions)
  const identity = await readIdentity(folder)
  if (identity === undefined)
    throw new VaultError(`${path} is not a vault: it has no ${VAULT_FILE}`)
  permissions.checkFolder(path, [MANIFESTS_FOLDER, SECRETS_FOLDER])
  const { owner, writer: writerKey } = identity
  const log = createManifestLog(
    folder,
    writerKey,
    createSeen(checkRollbackState(rollbackState), permissions, writerKey),
    new ActLog(folder),
  )
  const store = createSecretStore(folder)
  const caller =
    callerSecretKey === undefined
      ? undefined
      : boxKeys(parseKey('callerSecretKey', callerSecretKey))
  const stateOf = createStates(folder, store, ciphertext, log.head, caller)
  let latest = stateOf(await log.head())
  if ((await log.head()).addresses === undefined)
    await checkShareFiles(folder, latest.generation, latest.publicKey.hArray.length)
  await checkWriterFile(folder)

  async function head(): Promise<SignedManifest> {
    const manifest = await log.head()
    latest = stateOf(manifest)
    return manifest
  }

  async function ciphertext(name: SecretName): Promise<string> {
    await head()
    return latest.ciphertext(name)
  }

  async function change(
    make: (base: SignedManifest) => Change | Promise<Change>,
  ): Promise<SignedManifest> {
    const { base, next } = await log.commit(await readWriter(folder, writerKey), make)
    latest = stateOf(next)
    await removeDropped(store, base, next)
    await notifyHolders(next)
    return next
  }

  async function changeKey<Changed>(
    work: (vault: ChangingVault) => Promise<Changed>,
  ): Promise<Changed> {
    const writer = await readWriter(folder, writerKey)
    const changed = await work({ folder, log, store, writer, stateOf })
    await head()
    return changed
  }

  return {
    directory: path,
    owner,
    writerKey,
    get threshold() {
      return latest.threshold
    },
    get holders() {
      return latest.holders
    },
    get generation() {
      return latest.generation
    },
    get publicKey() {
      return latest.publicKey
    },
    get publicKeyHex() {
      return hexOf(latest.publicKey)
    },
    async current() {
      await head()
      return latest
    },
    ...createSecrets({ owner, store, head, change }),
    ciphertext,
    async decryptResponse(body) {
      await head()
      return decryptResponse(latest, body)
    },
    reshare: given =>
      changeKey(vault => reshare(vault, checkOptions('reshare', given, reshareNames))),
    rotate: () => changeKey(rotate),
    recover: given =>
      changeKey(vault => {
        const { after } = checkOptions('recover', given, { after: true })
        return recover(vault, checkNumber('after', after, { min: 1, max: MAX_AFTER, whole: true }))
      }),
  }
}

/** Numbers of changes have at most 15 digits. */
const MAX_AFTER = 1e14

function checkRollbackState(file: string | undefined): string | undefined {
  return file === undefined ? undefined : resolve(checkText('rollbackState', file))
}

/** The absolute path of a directory. */
export function checkDirectory(directory: unknown): string {
  if (typeof directory !== 'string' || directory === '')
    throw new ValidationError('directory must be a path')
  return resolve(directory)
}
