import { readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ValidationError } from '../../core/errors.js'
import { VaultError } from './errors.js'
import { fileError, isAbsence, makeFolder, readFields, syncFolder, writeWhole } from './files.js'
import type { Permissions } from './permissions.js'
import type { SecretName } from './secret-name.js'
import { checkName, fileNameOf, formatName } from './secret-name.js'

/** The ciphertexts of a vault's secrets, one file each. */
export interface SecretStore {
  write(name: SecretName, ciphertext: string): Promise<void>
  /** The ciphertext, whatever it may be. */
  read(name: SecretName): Promise<string>
  /** The names of one owner's secrets, or of all, and the files that are damaged. */
  list(owner?: string): Promise<{
    readonly names: readonly SecretName[]
    readonly damaged: readonly DamagedSecret[]
  }>
  remove(name: SecretName): Promise<void>
}

/** A file that should hold a secret, and does not. */
export interface DamagedSecret {
  /** Its path below the vault's directory. */
  readonly file: string
  /** Whose folder it is in. */
  readonly owner: string
  /** What is wrong with it, the file named. */
  readonly error: VaultError
}

/** Secrets an owner may have. */
export const MAX_SECRETS = 100
/** Bytes a ciphertext may have. */
export const MAX_CIPHERTEXT_BYTES = 2000
/** Room for the name besides, and for what quoting adds. */
const MAX_FILE_BYTES = 8192
/** The folder with the secrets. */
export const SECRETS_FOLDER = 'secrets'

/** The store below a vault's directory. */
export function createSecretStore(directory: string, permissions: Permissions): SecretStore {
  let writing: Promise<unknown> = Promise.resolve()

  const shownOf = ({ owner, namespace, key }: SecretName): string =>
    `${SECRETS_FOLDER}/${owner}/${fileNameOf(namespace)}/${fileNameOf(key)}.json`
  const pathOf = (name: SecretName): string => join(directory, shownOf(name))

  async function entriesOf(...folders: readonly string[]): Promise<readonly string[]> {
    try {
      const entries = await readdir(join(directory, SECRETS_FOLDER, ...folders))
      // Drafts have a dot in front, and so have the files some systems put everywhere.
      return entries.filter(entry => !entry.startsWith('.')).sort()
    } catch (error) {
      if (isAbsence(error)) return []
      throw fileError([SECRETS_FOLDER, ...folders].join('/'), 'read', error)
    }
  }

  async function ownersWithSecrets(): Promise<readonly string[]> {
    return (await entriesOf()).filter(entry => /^[0-9a-f]{40}$/.test(entry))
  }

  async function filesOf(owner: string): Promise<readonly string[]> {
    const namespaces = await entriesOf(owner)
    const files = await Promise.all(
      namespaces.map(async function filesIn(namespace) {
        const entries = await entriesOf(owner, namespace)
        return entries.map(entry => `${SECRETS_FOLDER}/${owner}/${namespace}/${entry}`)
      }),
    )
    return files.flat().filter(file => file.endsWith('.json'))
  }

  async function readFile(shown: string): Promise<Kept | undefined> {
    const fields = await readFields(join(directory, shown), {
      shown,
      maxBytes: MAX_FILE_BYTES,
      content: 'public',
      permissions,
    })
    if (fields === undefined) return undefined
    const { ciphertext, owner, namespace, key } = fields
    if (typeof ciphertext !== 'string') throw new VaultError(`${shown} has no ciphertext`)
    if (Buffer.byteLength(ciphertext) > MAX_CIPHERTEXT_BYTES)
      throw new VaultError(`${shown}: ciphertext has more than ${MAX_CIPHERTEXT_BYTES} bytes`)
    const name = readName({ owner, namespace, key })
    if (name === undefined || shownOf(name) !== shown)
      throw new VaultError(`${shown} is not the file of the secret it names`)
    return { name, ciphertext }
  }

  async function write(name: SecretName, ciphertext: string): Promise<void> {
    const files = await filesOf(name.owner)
    if (files.length >= MAX_SECRETS && !files.includes(shownOf(name)))
      throw new ValidationError(
        `owner 0x${name.owner} has ${MAX_SECRETS} secrets already, which is all an owner may have`,
      )
    try {
      await makeFolder(dirname(pathOf(name)))
      await writeWhole(pathOf(name), `${JSON.stringify({ ...name, ciphertext }, null, 2)}\n`)
    } catch (error) {
      throw fileError(shownOf(name), 'written', error)
    }
  }

  return {
    write(name, ciphertext) {
      // In turn, so that they are counted right.
      const done = writing.then(() => write(name, ciphertext))
      writing = done.catch(() => undefined)
      return done
    },
    async read(name) {
      const kept = await readFile(shownOf(name))
      if (kept === undefined) throw missing(name)
      return kept.ciphertext
    },
    async list(owner) {
      const owners = owner === undefined ? await ownersWithSecrets() : [owner]
      const files = await Promise.all(owners.map(filesOf))
      const names: SecretName[] = []
      const damaged: DamagedSecret[] = []
      await Promise.all(
        files.flat().map(async function readName(file) {
          try {
            const kept = await readFile(file)
            // It may have gone since.
            if (kept !== undefined) names.push(kept.name)
          } catch (error) {
            if (!(error instanceof VaultError)) throw error
            damaged.push({ file, owner: file.split('/')[1] as string, error })
          }
        }),
      )
      return {
        names: names.sort((one, other) => (formatName(one) < formatName(other) ? -1 : 1)),
        damaged: damaged.sort((one, other) => (one.file < other.file ? -1 : 1)),
      }
    },
    async remove(name) {
      try {
        await rm(pathOf(name))
      } catch (error) {
        if (isAbsence(error)) throw missing(name)
        throw fileError(shownOf(name), 'removed', error)
      }
      await syncFolder(dirname(pathOf(name)))
    },
  }
}

interface Kept {
  readonly name: SecretName
  readonly ciphertext: string
}

function readName(fields: Readonly<Record<string, unknown>>): SecretName | undefined {
  try {
    return checkName(fields as unknown as SecretName)
  } catch {
    return undefined
  }
}

function missing(name: SecretName): VaultError {
  return new VaultError(`key does not exist: ${formatName(name)}`)
}
