import { readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { BoundedMap } from 'sluice/core'
import { fileNameOf } from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import { fileError, isAbsence, makeFolder, type VaultFolder } from './files.js'
import { digestOf, type Manifest, type SecretVersion } from './manifest.js'

/** The most bytes of a ciphertext. */
export const MAX_CIPHERTEXT_BYTES = 2000
/** The longest file of a secret: its ciphertext, its name and their JSON quoting fit. */
const MAX_FILE_BYTES = 8192
/** The folder of the secrets. */
export const SECRETS_FOLDER = 'secrets'

/** The file of a version, relative to the vault's directory. */
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
 * A file is left over if no version names it and it is older than this, in milliseconds. A change
 * takes much less time.
 */
export const LEFT_OVER = 3_600_000
/** The name of a version's file, or of a draft of such a file. */
const OWN_FILE = /\.[0-9a-f]{16}\.json$|^\..+\.[0-9a-f]{16}$/

/** The most ciphertexts that stay in memory: those that were read last. */
const CACHED = 100

/** A ciphertext that was checked, with the stamp of its file at that time. */
interface CachedCiphertext {
  readonly stamp: string
  readonly digest: string
  readonly ciphertext: string
}

/** The ciphertexts of a vault's secrets. Each version has a file, which never changes. */
export class SecretStore {
  readonly #folder: VaultFolder
  readonly #cache = new BoundedMap<string, CachedCiphertext>(CACHED)

  constructor(folder: VaultFolder) {
    this.#folder = folder
  }

  /**
   * Writes the file of a new version, which the manifest does not name yet. Returns the digest of
   * the ciphertext.
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

  /**
   * The ciphertext of a version. Throws VaultError if its file does not contain that ciphertext.
   */
  async read(version: SecretVersion): Promise<string> {
    const file = fileOfVersion(version)
    const stamp = await this.#stampOf(file)
    const cached = this.#cache.get(file)
    // The digest comes from a signed manifest. So a file with a forged stamp can't change which
    // ciphertext is used.
    if (cached !== undefined && cached.stamp === stamp && cached.digest === version.digest) {
      this.#cache.set(file, cached)
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
    if (stamp !== undefined) this.#cache.set(file, { stamp, digest: version.digest, ciphertext })
    return ciphertext
  }

  /**
   * Removes the files of the versions that a change has dropped. With a settled change it also
   * removes the files that killed processes have left. No version names these files, and they are
   * older than any change takes.
   */
  async removeDropped(base: Manifest, next: Manifest): Promise<void> {
    const named = new Set(next.secrets.map(({ digest }) => digest))
    for (const version of base.secrets) if (!named.has(version.digest)) await this.#remove(version)
    // Until the holders have proved their shares of a new key, files for the old key are kept.
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

  /** Identifies the current directory entry of a file. Rejects permissions that are too wide. */
  async #stampOf(file: string): Promise<string | undefined> {
    const entry = await stat(this.#folder.path(file)).catch(() => undefined)
    if (entry === undefined) return undefined
    this.#folder.permissions.checkFile(file, entry, 'public')
    const { dev, ino, size, mtimeMs, ctimeMs } = entry
    return [dev, ino, size, mtimeMs, ctimeMs].join(' ')
  }
}

/**
 * Removes a file if it is old. Errors are ignored: the change was made, and the next change tries
 * again.
 */
async function removeOld(path: string): Promise<void> {
  try {
    const { mtimeMs } = await stat(path)
    if (mtimeMs < Date.now() - LEFT_OVER) await rm(path)
  } catch {
    return
  }
}
