import { readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { fileNameOf } from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import { fileError, isAbsence, makeFolder, type VaultFolder } from './files.js'
import { digestOf, type Manifest, type SecretVersion } from './manifest.js'

/** The most bytes of a ciphertext. */
export const MAX_CIPHERTEXT_BYTES = 2000
/** A ciphertext, the name and their quoting. */
const MAX_FILE_BYTES = 8192
/** The folder with the secrets. */
export const SECRETS_FOLDER = 'secrets'

/** The file of a version, below the vault's directory. */
export function fileOfVersion({
  owner,
  namespace,
  key,
  digest,
}: Pick<SecretVersion, keyof SecretName | 'digest'>): string {
  const folder = `${SECRETS_FOLDER}/${owner}/${fileNameOf(namespace)}`
  return `${folder}/${fileNameOf(key)}.${digest.slice(0, 16)}.json`
}

/**
 * A change takes far less: files that no version has were left over, and are older. In
 * milliseconds.
 */
export const LEFT_OVER = 3_600_000
/** The name of a version's file, or of a draft of one. */
const OWN_FILE = /\.[0-9a-f]{16}\.json$|^\..+\.[0-9a-f]{16}$/

/** So many ciphertexts stay in memory, the last ones that were read. */
const CACHED = 100

/** A ciphertext that was checked, and its file then. */
interface CachedCiphertext {
  readonly stamp: string
  readonly digest: string
  readonly ciphertext: string
}

/** The ciphertexts of a vault's secrets: a file for each version, which never changes. */
export class SecretStore {
  readonly #folder: VaultFolder
  readonly #cache = new Map<string, CachedCiphertext>()

  constructor(folder: VaultFolder) {
    this.#folder = folder
  }

  /**
   * Writes a file of its own, which the manifest does not name yet. Returns the ciphertext's
   * digest.
   */
  async write({ owner, namespace, key }: SecretName, ciphertext: string): Promise<string> {
    const digest = digestOf(ciphertext)
    const file = fileOfVersion({ owner, namespace, key, digest })
    const text = JSON.stringify({ owner, namespace, key, ciphertext }, null, 2)
    try {
      await makeFolder(dirname(this.#folder.path(file)))
      await this.#folder.write(file, text)
    } catch (error) {
      throw fileError(file, 'written', error)
    }
    return digest
  }

  /** The ciphertext of a version. Throws VaultError where its file does not hold it. */
  async read(version: SecretVersion): Promise<string> {
    const file = fileOfVersion(version)
    const stamp = await this.#stampOf(file)
    const cached = this.#cache.get(file)
    // The digest is that of a signed manifest: a forged entry of a file does not change which
    // ciphertext is used.
    if (cached !== undefined && cached.stamp === stamp && cached.digest === version.digest) {
      this.#remember(file, cached)
      return cached.ciphertext
    }
    const fields = await this.#folder.read(file, MAX_FILE_BYTES, 'public')
    if (fields === undefined) throw new VaultError(`${file} is missing`)
    const { ciphertext, owner, namespace, key } = fields
    if (typeof ciphertext !== 'string') throw new VaultError(`${file} has no ciphertext`)
    if (Buffer.byteLength(ciphertext) > MAX_CIPHERTEXT_BYTES)
      throw new VaultError(`${file}: ciphertext has more than ${MAX_CIPHERTEXT_BYTES} bytes`)
    if (owner !== version.owner || namespace !== version.namespace || key !== version.key)
      throw new VaultError(`${file} is not the file of the secret it names`)
    if (digestOf(ciphertext) !== version.digest)
      throw new VaultError(`${file} does not hold the ciphertext that was put`)
    if (stamp !== undefined) this.#remember(file, { stamp, digest: version.digest, ciphertext })
    return ciphertext
  }

  /**
   * Removes the files of the versions that a change has left out. With a settled change it also
   * removes the files that killed processes have left: no version has them, and they are older than
   * any change takes.
   */
  async removeDropped(base: Manifest, next: Manifest): Promise<void> {
    const named = new Set(next.secrets.map(({ digest }) => digest))
    for (const version of base.secrets) if (!named.has(version.digest)) await this.#remove(version)
    // Until the holders have shown their shares of a new key, what the old one decrypts stays.
    if (next.isUnsettled !== true) await this.#removeLeftOver(next.secrets)
  }

  async #remove(version: SecretVersion): Promise<void> {
    const file = fileOfVersion(version)
    try {
      await rm(this.#folder.path(file))
    } catch (error) {
      if (!isAbsence(error)) throw fileError(file, 'removed', error)
    }
  }

  async #removeLeftOver(versions: readonly SecretVersion[]): Promise<void> {
    const named = new Set(versions.map(fileOfVersion))
    const list = (path: string): Promise<string[]> =>
      readdir(this.#folder.path(path)).then(
        entries => entries.map(entry => `${path}/${entry}`),
        () => [],
      )
    for (const owner of await list(SECRETS_FOLDER))
      for (const namespace of await list(owner))
        for (const file of await list(namespace))
          if (!named.has(file) && OWN_FILE.test(basename(file)))
            await removeOld(this.#folder.path(file))
  }

  /** Identifies the file's entry as it is now. Rejects permissions that are too wide. */
  async #stampOf(file: string): Promise<string | undefined> {
    const entry = await stat(this.#folder.path(file)).catch(() => undefined)
    if (entry === undefined) return undefined
    this.#folder.permissions.checkFile(file, entry, 'public')
    const { dev, ino, size, mtimeMs, ctimeMs } = entry
    return [dev, ino, size, mtimeMs, ctimeMs].join(' ')
  }

  #remember(file: string, cached: CachedCiphertext): void {
    this.#cache.delete(file)
    this.#cache.set(file, cached)
    const [oldest] = this.#cache.keys()
    if (this.#cache.size > CACHED && oldest !== undefined) this.#cache.delete(oldest)
  }
}

/** The change was made: the next change removes the files that can't be removed now. */
async function removeOld(path: string): Promise<void> {
  try {
    const { mtimeMs } = await stat(path)
    if (mtimeMs < Date.now() - LEFT_OVER) await rm(path)
  } catch {
    return
  }
}
