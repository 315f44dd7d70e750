import { checkOwner } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import type { VaultFolder } from './files.js'
import { isWriterKey } from './writer.js'

/** What never changes of a vault: the contents of vault.json. */
export interface Identity {
  /** The owner of secrets put without one. */
  readonly owner: string
  /** The public key that manifests are signed with. */
  readonly writer: string
}

const VERSION = 2
const MAX_BYTES = 4096
/** The file that makes a directory a vault. */
export const VAULT_FILE = 'vault.json'

/** Writes vault.json. */
export async function writeIdentity(folder: VaultFolder, identity: Identity): Promise<void> {
  await folder.write(VAULT_FILE, JSON.stringify({ version: VERSION, ...identity }, null, 2))
}

/** Reads vault.json; undefined if the directory is not a vault. */
export async function readIdentity(folder: VaultFolder): Promise<Identity | undefined> {
  const fields = await folder.read(VAULT_FILE, MAX_BYTES, 'public')
  if (fields === undefined) return undefined
  const { version, writer } = fields
  if (version === 1)
    throw wrong('its version is 1, of sluice 0.1: make a vault, and put the secrets there')
  if (version !== VERSION) throw wrong(`its version is not ${VERSION}`)
  if (!isWriterKey(writer)) throw wrong('writer is not 64 lower-case hexadecimal digits')
  return { owner: readOwner(fields.owner), writer }
}

function readOwner(owner: unknown): string {
  try {
    return checkOwner('owner', owner)
  } catch (error) {
    throw wrong((error as Error).message, error)
  }
}

function wrong(what: string, cause?: unknown): VaultError {
  return new VaultError(`${VAULT_FILE}: ${what}`, cause === undefined ? {} : { cause })
}
