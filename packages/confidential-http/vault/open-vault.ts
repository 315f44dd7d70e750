import { resolve } from 'node:path'
import {
  checkNumber,
  checkOptions,
  checkText,
  isStreamsError,
  optional,
  readOptions,
  type Schema,
} from 'sluice/core'
import {
  boxKeys,
  checkNamespace,
  checkOwner,
  createPermissions,
  formatKey,
  type PermissionOptions,
  parseBoxPublicKey,
  parseKey,
  permissionRules,
} from 'sluice/internal'
import { type SecretName, type SecretRef, VaultError } from 'sluice/plugins/confidential-http'
import type { PublicKey } from 'sluice/tdh2'
import { ActLog } from './act-log.js'
import { KeyChanger } from './change-key.js'
import { checkDirectory, VaultFolder } from './files.js'
import { checkWriterFile, type Identity, readIdentity, readWriter, VAULT_FILE } from './identity.js'
import {
  type Act,
  addVersion,
  hexOf,
  newestOf,
  type SecretVersion,
  versionsOf,
  withoutSecret,
} from './manifest.js'
import { MANIFESTS_FOLDER, type MakeChange, ManifestLog } from './manifest-log.js'
import { askStatus } from './probe.js'
import { notifyHolders } from './process/remote-holders.js'
import { openShareResponse } from './release.js'
import { RollbackState } from './rollback.js'
import { fileOfVersion, SECRETS_FOLDER, SecretStore } from './secret-store.js'
import { encryptSecret, nameParts, readExpiry, readName, readPolicy, readValue } from './secrets.js'
import { checkShareFiles } from './share-files.js'
import type { DamagedSecret, PutOptions, SecretInfo, Vault, VaultState } from './vault.js'
import { VaultStates } from './vault-state.js'

/** The options of `openVault`. */
export interface OpenVaultOptions extends PermissionOptions {
  /**
   * A file that remembers the newest state of the vault, best on another disk. An older state is
   * rejected (`ROLLBACK`), even after a restart of this process.
   * @default none: remembered while the process runs
   */
  readonly rollbackState?: string
  /**
   * The secret key of this process, 64 hexadecimal digits: `readKeyFile('enclave.key')`. Holders
   * that are separate processes recognise this process by it.
   * @default none: such holders release nothing
   */
  readonly callerSecretKey?: string
}

const schema = {
  ...permissionRules,
  rollbackState: optional((field, value) => resolve(checkText(field, value))),
  callerSecretKey: optional((field, value) => formatKey(parseKey(field, value))),
} satisfies Schema<OpenVaultOptions>

const putNames = { policy: true, expiresAt: true }
const optionalOwner = optional(checkOwner)
const optionalNamespace = optional((_field, value) => checkNamespace(value as string))
/** The largest `after` of `recover`: numbers of changes have at most 15 digits. */
const MAX_AFTER = 1e14

/**
 * Opens a vault. A missing or wrong share is found only when its holder is asked, because the other
 * holders may suffice. Rejects with DataStreamsError (`PERMISSIONS`) if others may write in its
 * folders, or may read or write the share of any holder.
 *
 * @example
 * const vault = await openVault('./vault')
 * await vault.put({ key: 'API_KEY' }, value, { policy: { hosts: ['api.example.com'] } })
 */
export async function openVault(directory: string, options: OpenVaultOptions = {}): Promise<Vault> {
  const path = checkDirectory(directory)
  const { rollbackState, callerSecretKey, ...given } = readOptions('openVault', options, schema)
  const permissions = createPermissions(given)
  const folder = new VaultFolder(path, permissions)
  const identity = await readIdentity(folder)
  if (identity === undefined)
    throw new VaultError(`${path} is not a vault: it has no ${VAULT_FILE}`)
  permissions.checkFolder(path, [MANIFESTS_FOLDER, SECRETS_FOLDER])
  const { writer } = identity
  const seen = new RollbackState(rollbackState, permissions, writer)
  const log = new ManifestLog(folder, writer, seen, new ActLog(folder))
  const store = new SecretStore(folder)
  const caller = callerSecretKey && boxKeys(parseKey('callerSecretKey', callerSecretKey))
  const states = new VaultStates(folder, store, log, caller || undefined)
  const { generation, publicKey, addresses } = await log.head()
  if (addresses === undefined) await checkShareFiles(folder, generation, publicKey.hArray.length)
  await checkWriterFile(folder)
  return new DirectoryVault(identity, folder, log, store, states, await states.head())
}

/** The methods are bound, so that programs can destructure a vault. */
class DirectoryVault implements Vault {
  readonly directory: string
  readonly owner: string
  readonly writerKey: string
  readonly #folder: VaultFolder
  readonly #log: ManifestLog
  readonly #store: SecretStore
  readonly #states: VaultStates
  #latest: VaultState

  constructor(
    { owner, writer }: Identity,
    folder: VaultFolder,
    log: ManifestLog,
    store: SecretStore,
    states: VaultStates,
    latest: VaultState,
  ) {
    this.directory = folder.directory
    this.owner = owner
    this.writerKey = writer
    this.#folder = folder
    this.#log = log
    this.#store = store
    this.#states = states
    this.#latest = latest
  }

  get threshold(): Vault['threshold'] {
    return this.#latest.threshold
  }
  get holders(): Vault['holders'] {
    return this.#latest.holders
  }
  get generation(): Vault['generation'] {
    return this.#latest.generation
  }
  get publicKey(): PublicKey {
    return this.#latest.publicKey
  }
  get publicKeyHex(): string {
    return hexOf(this.#latest.publicKey)
  }

  readonly current = async (): Promise<VaultState> => (this.#latest = await this.#states.head())

  readonly put = async (
    given: SecretRef,
    value: string | Uint8Array,
    putOptions: PutOptions,
  ): Promise<void> => {
    // Rejects an `expiresAt` in the name, where it would have no effect.
    const name = readName(given, this.owner, nameParts)
    const { policy: use, expiresAt: expiry } = checkOptions('put', putOptions, putNames)
    const policy = readPolicy(name, use)
    const bytes = readValue(name, value, policy)
    const expiresAt = readExpiry(expiry)
    let made: { readonly publicKey: PublicKey; readonly digest: string } | undefined
    await this.#change(async ({ publicKey, secrets }) => {
      const until = expiresAt === undefined ? {} : { expiresAt }
      const facts = { ...name, putAt: Date.now(), ...until, policy }
      // Throws before the file is written if the owner has no room for another secret.
      addVersion(secrets, { ...facts, digest: '' })
      // The key may have been rotated since the last attempt.
      if (made?.publicKey !== publicKey) {
        const ciphertext = await encryptSecret(publicKey, name, bytes)
        made = { publicKey, digest: await this.#store.write(name, ciphertext) }
      }
      const next = addVersion(secrets, { ...facts, digest: made.digest })
      return { secrets: next, act: actOf('put', name, next) }
    })
  }

  readonly versions = async (given: SecretRef): Promise<readonly SecretInfo[]> => {
    const name = readName(given, this.owner)
    return versionsOf(await this.#secrets(), name).map(toInfo)
  }

  readonly restore = async (given: SecretRef, version: number): Promise<number> => {
    const name = readName(given, this.owner)
    const { secrets } = await this.#change(base => {
      const found = versionsOf(base.secrets, name).find(each => each.version === version)
      if (found === undefined) throw new VaultError(`there is no version ${version} of ${name.key}`)
      const { version: _, ...facts } = found
      const next = addVersion(base.secrets, { ...facts, putAt: Date.now() })
      return { secrets: next, act: actOf('restore', name, next) }
    })
    return versionsOf(secrets, name)[0].version
  }

  readonly list: Vault['list'] = async given => {
    const filter = checkOptions('list', given, { owner: true, namespace: true })
    const owner = optionalOwner('owner', filter.owner)
    const namespace = optionalNamespace('namespace', filter.namespace)
    return newestOf(await this.#secrets())
      .filter(each => owner === undefined || each.owner === owner)
      .filter(each => namespace === undefined || each.namespace === namespace)
      .map(toInfo)
  }

  readonly listDamaged: Vault['listDamaged'] = async given => {
    const filter = checkOptions('listDamaged', given, { owner: true })
    const owner = optionalOwner('owner', filter.owner)
    const damaged: DamagedSecret[] = []
    for (const version of newestOf(await this.#secrets())) {
      if (owner !== undefined && version.owner !== owner) continue
      await this.#store.read(version).catch(error => {
        if (!isStreamsError(error)) throw error
        damaged.push({ file: fileOfVersion(version), owner: version.owner, error })
      })
    }
    return damaged
  }

  readonly remove = async (given: SecretRef): Promise<void> => {
    const name = readName(given, this.owner)
    await this.#change(({ secrets }) => ({
      secrets: withoutSecret(secrets, name),
      act: { type: 'remove', secret: pathOf(name) },
    }))
  }

  readonly ciphertext = async (name: SecretName): Promise<string> =>
    (await this.current()).ciphertext(name)

  readonly decryptResponse = async (body: Uint8Array | string): Promise<Uint8Array> =>
    openShareResponse(await this.current(), body)

  readonly reshare: Vault['reshare'] = given => this.#changeKey(keys => keys.reshare(given))

  readonly rotate: Vault['rotate'] = () => this.#changeKey(keys => keys.rotate())

  readonly recover: Vault['recover'] = given =>
    this.#changeKey(keys => {
      const { after } = checkOptions('recover', given, { after: true })
      return keys.recover(checkNumber('after', after, { min: 1, max: MAX_AFTER, whole: true }))
    })

  readonly revoke: Vault['revoke'] = async given => {
    const key = formatKey(parseBoxPublicKey('key', given))
    return this.#changeKey(keys => keys.revoke(key))
  }

  readonly status: Vault['status'] = async () => {
    const manifest = await this.#log.head()
    const { revoked = [] } = manifest
    return { trust: revoked.length, revoked, holders: await askStatus(this.#folder, manifest) }
  }

  async #secrets(): Promise<readonly SecretVersion[]> {
    const manifest = await this.#log.head()
    this.#latest = this.#states.of(manifest)
    return manifest.secrets
  }

  /**
   * Makes the next state of the vault, and removes the files that the new state no longer names.
   */
  async #change(make: MakeChange): Promise<{ readonly secrets: readonly SecretVersion[] }> {
    const { base, next } = await this.#log.commit(
      await readWriter(this.#folder, this.writerKey),
      make,
    )
    this.#latest = this.#states.of(next)
    await this.#store.removeDropped(base, next)
    await notifyHolders(next)
    return next
  }

  async #changeKey<Changed>(work: (keys: KeyChanger) => Promise<Changed>): Promise<Changed> {
    const writer = await readWriter(this.#folder, this.writerKey)
    const changed = await work(
      new KeyChanger(this.#folder, this.#log, this.#store, this.#states, writer),
    )
    await this.current()
    return changed
  }
}

const pathOf = ({ owner, namespace, key }: SecretName): string => `${owner}/${namespace}/${key}`

function actOf(type: 'put' | 'restore', name: SecretName, secrets: readonly SecretVersion[]): Act {
  return { type, secret: pathOf(name), version: versionsOf(secrets, name)[0].version }
}

function toInfo({ digest: _, ...info }: SecretVersion): SecretInfo {
  return info
}
