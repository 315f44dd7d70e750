import type { Stats } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { DataStreamsError } from 'sluice/core'
import { fileNameOf } from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import { fileError, isAbsence, makeFolder, type VaultFolder } from './files.js'
import { digestOf, type SecretVersion } from './manifest.js'

/** The ciphertexts of a vault's secrets: a file for each version, which never changes. */
export interface SecretStore {
  /** Writes a file of its own, which the manifest does not name yet. Returns the ciphertext's digest. */
  write(name: SecretName, ciphertext: string): Promise<string>
  read(version: SecretVersion): Promise<string>
  /** Removes the file of a version that the manifest no longer names. */
  remove(version: SecretVersion): Promise<void>
  /** Removes the files that killed processes have left: no version has them, and they are older than any change takes. */
  removeLeftOver(versions: readonly SecretVersion[]): Promise<void>
}

/** A file that should hold a secret, and does not. */
export interface DamagedSecret {
  /** Its path below the vault's directory. */
  readonly file: string
  /** The owner of its folder. */
  readonly owner: string
  /** The reason, with the name of the file. */
  readonly error: DataStreamsError
}

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

/** A change takes far less: files that no version has were left over, and are older. In milliseconds. */
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

/** The store below a vault's directory. */
export function createSecretStore(folder: VaultFolder): SecretStore {
  const { directory } = folder
  const cache = new Map<string, CachedCiphertext>()

  /** What the file's entry is now, whose permissions are those of a public file. */
  async function stampOf(file: string): Promise<string | undefined> {
    const entry = await stat(join(directory, file)).catch(() => undefined)
    if (entry === undefined) return undefined
    folder.permissions.checkFile(file, entry, 'public')
    return stampText(entry)
  }

  function remember(file: string, cached: CachedCiphertext): void {
    cache.delete(file)
    cache.set(file, cached)
    const [oldest] = cache.keys()
    if (cache.size > CACHED && oldest !== undefined) cache.delete(oldest)
  }

  return {
    async write({ owner, namespace, key }, ciphertext) {
      const digest = digestOf(ciphertext)
      const file = fileOfVersion({ owner, namespace, key, digest })
      try {
        await makeFolder(dirname(join(directory, file)))
        await folder.write(file, JSON.stringify({ owner, namespace, key, ciphertext }, null, 2))
      } catch (error) {
        throw fileError(file, 'written', error)
      }
      return digest
    },
    async read(version) {
      const file = fileOfVersion(version)
      const stamp = await stampOf(file)
      const cached = cache.get(file)
      // The digest is that of a signed manifest: who forges the entry of a file has the right ciphertext used all the same.
      if (cached !== undefined && cached.stamp === stamp && cached.digest === version.digest) {
        remember(file, cached)
        return cached.ciphertext
      }
      const fields = await folder.read(file, MAX_FILE_BYTES, 'public')
      if (fields === undefined) throw new VaultError(`${file} is missing`)
      const { ciphertext, owner, namespace, key } = fields
      if (typeof ciphertext !== 'string') throw new VaultError(`${file} has no ciphertext`)
      if (Buffer.byteLength(ciphertext) > MAX_CIPHERTEXT_BYTES)
        throw new VaultError(`${file}: ciphertext has more than ${MAX_CIPHERTEXT_BYTES} bytes`)
      if (owner !== version.owner || namespace !== version.namespace || key !== version.key)
        throw new VaultError(`${file} is not the file of the secret it names`)
      if (digestOf(ciphertext) !== version.digest)
        throw new VaultError(`${file} does not hold the ciphertext that was put`)
      if (stamp !== undefined) remember(file, { stamp, digest: version.digest, ciphertext })
      return ciphertext
    },
    async remove(version) {
      const file = fileOfVersion(version)
      try {
        await rm(join(directory, file))
      } catch (error) {
        if (!isAbsence(error)) throw fileError(file, 'removed', error)
      }
    },
    removeLeftOver: versions => removeLeftOver(directory, versions),
  }
}

async function removeLeftOver(
  directory: string,
  versions: readonly SecretVersion[],
): Promise<void> {
  const named = new Set(versions.map(fileOfVersion))
  const list = (path: string): Promise<string[]> =>
    readdir(join(directory, path)).then(
      entries => entries.map(entry => `${path}/${entry}`),
      () => [],
    )
  for (const owner of await list(SECRETS_FOLDER))
    for (const namespace of await list(owner))
      for (const file of await list(namespace))
        if (!named.has(file) && OWN_FILE.test(basename(file)))
          await removeOld(join(directory, file))
}

/** The change was made: what can't be removed now is by the next one. */
async function removeOld(path: string): Promise<void> {
  try {
    const { mtimeMs } = await stat(path)
    if (mtimeMs < Date.now() - LEFT_OVER) await rm(path)
  } catch {
    return
  }
}

function stampText({ dev, ino, size, mtimeMs, ctimeMs }: Stats): string {
  return [dev, ino, size, mtimeMs, ctimeMs].join(' ')
}
