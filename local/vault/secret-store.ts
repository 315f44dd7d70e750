import { readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ValidationError } from '../../core/errors.js'
import { syncFolder } from '../files.js'
import { VaultError } from './errors.js'
import { fileError, isAbsence, makeFolder, type VaultFolder } from './files.js'
import { checkName, fileNameOf, formatName, type SecretName } from './secret-name.js'

/** The ciphertexts of a vault's secrets, one file each. */
export interface SecretStore {
  write(name: SecretName, ciphertext: string): Promise<void>
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
  /** The owner of its folder. */
  readonly owner: string
  /** The reason, with the name of the file. */
  readonly error: VaultError
}

/** The most secrets of an owner. */
export const MAX_SECRETS = 100
/** The most bytes of a ciphertext. */
export const MAX_CIPHERTEXT_BYTES = 2000
/** A ciphertext, the name and their quoting. */
const MAX_FILE_BYTES = 8192
/** The folder with the secrets. */
export const SECRETS_FOLDER = 'secrets'

interface SecretFile {
  readonly name: SecretName
  readonly ciphertext: string
}

const fileOf = ({ owner, namespace, key }: SecretName): string =>
  `${SECRETS_FOLDER}/${owner}/${fileNameOf(namespace)}/${fileNameOf(key)}.json`

/** The store below a vault's directory. */
export function createSecretStore(folder: VaultFolder): SecretStore {
  const { directory } = folder
  const pathOf = (name: SecretName): string => join(directory, fileOf(name))
  let writing: Promise<unknown> = Promise.resolve()

  async function write(name: SecretName, ciphertext: string): Promise<void> {
    const files = await filesOf(directory, name.owner)
    if (files.length >= MAX_SECRETS && !files.includes(fileOf(name)))
      throw new ValidationError(
        `owner 0x${name.owner} has ${MAX_SECRETS} secrets already, which is all an owner may have`,
      )
    try {
      await makeFolder(dirname(pathOf(name)))
      await folder.write(fileOf(name), JSON.stringify({ ...name, ciphertext }, null, 2))
    } catch (error) {
      throw fileError(fileOf(name), 'written', error)
    }
  }

  return {
    write(name, ciphertext) {
      // One after another, so that the limit holds.
      const done = writing.then(() => write(name, ciphertext))
      writing = done.catch(() => undefined)
      return done
    },
    async read(name) {
      const file = await readSecret(folder, fileOf(name))
      if (file === undefined) throw missing(name)
      return file.ciphertext
    },
    async list(owner) {
      const owners = owner === undefined ? await ownersIn(directory) : [owner]
      const files = await Promise.all(owners.map(each => filesOf(directory, each)))
      const names: SecretName[] = []
      const damaged: DamagedSecret[] = []
      async function addFile(file: string): Promise<void> {
        try {
          const secret = await readSecret(folder, file)
          // It may have been deleted meanwhile.
          if (secret !== undefined) names.push(secret.name)
        } catch (error) {
          if (!(error instanceof VaultError)) throw error
          damaged.push({ file, owner: file.split('/')[1] as string, error })
        }
      }
      await Promise.all(files.flat().map(addFile))
      return {
        names: names.sort((one, other) => (formatName(one) < formatName(other) ? -1 : 1)),
        damaged: damaged.sort((one, other) => (one.file < other.file ? -1 : 1)),
      }
    },
    async remove(name) {
      try {
        await rm(pathOf(name))
      } catch (error) {
        throw isAbsence(error) ? missing(name) : fileError(fileOf(name), 'removed', error)
      }
      await syncFolder(dirname(pathOf(name)))
    },
  }
}

async function entriesOf(directory: string, ...folders: string[]): Promise<readonly string[]> {
  try {
    const entries = await readdir(join(directory, SECRETS_FOLDER, ...folders))
    // Drafts begin with a dot, and so do the files that some systems add.
    return entries.filter(entry => !entry.startsWith('.')).sort()
  } catch (error) {
    if (isAbsence(error)) return []
    throw fileError([SECRETS_FOLDER, ...folders].join('/'), 'read', error)
  }
}

async function ownersIn(directory: string): Promise<readonly string[]> {
  return (await entriesOf(directory)).filter(entry => /^[0-9a-f]{40}$/.test(entry))
}

async function filesOf(directory: string, owner: string): Promise<readonly string[]> {
  const namespaces = await entriesOf(directory, owner)
  const files = await Promise.all(
    namespaces.map(async function filesIn(namespace) {
      const entries = await entriesOf(directory, owner, namespace)
      return entries.map(entry => `${SECRETS_FOLDER}/${owner}/${namespace}/${entry}`)
    }),
  )
  return files.flat().filter(file => file.endsWith('.json'))
}

/** Reads and checks the file of a secret; undefined if there is none. */
async function readSecret(folder: VaultFolder, file: string): Promise<SecretFile | undefined> {
  const fields = await folder.read(file, MAX_FILE_BYTES, 'public')
  if (fields === undefined) return undefined
  const { ciphertext, owner, namespace, key } = fields
  if (typeof ciphertext !== 'string') throw new VaultError(`${file} has no ciphertext`)
  if (Buffer.byteLength(ciphertext) > MAX_CIPHERTEXT_BYTES)
    throw new VaultError(`${file}: ciphertext has more than ${MAX_CIPHERTEXT_BYTES} bytes`)
  const name = readName({ owner, namespace, key })
  if (name === undefined || fileOf(name) !== file)
    throw new VaultError(`${file} is not the file of the secret it names`)
  return { name, ciphertext }
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
