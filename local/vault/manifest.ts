import { formatPublicKey, type PublicKey, parsePublicKey } from '../../crypto/tdh2/index.js'
import { VaultError } from './errors.js'
import type { VaultFolder } from './files.js'
import { checkOwner } from './secret-name.js'

/** The contents of a vault's vault.json. */
export interface Manifest {
  readonly threshold: number
  readonly owner: string
  readonly publicKey: PublicKey
}

const VERSION = 1
const MAX_BYTES = 65_536
/** The most nodes a vault may have. */
export const MAX_NODES = 31
/** The file that makes a directory a vault. */
export const MANIFEST_FILE = 'vault.json'

/** Writes the manifest of a vault. */
export async function writeManifest(
  folder: VaultFolder,
  { threshold, owner, publicKey }: Manifest,
): Promise<void> {
  const nodes = publicKey.hArray.length
  const fields = { version: VERSION, threshold, nodes, owner, publicKey: hexOf(publicKey) }
  await folder.write(MANIFEST_FILE, JSON.stringify(fields, null, 2))
}

/** Reads the manifest of a vault; undefined if the directory is not a vault. */
export async function readManifest(folder: VaultFolder): Promise<Manifest | undefined> {
  const fields = await folder.read(MANIFEST_FILE, MAX_BYTES, 'public')
  if (fields === undefined) return undefined
  const { version, threshold, nodes } = fields
  if (version !== VERSION) throw wrong(`its version is not ${VERSION}`)
  const publicKey = readPublicKey(fields.publicKey)
  if (nodes !== publicKey.hArray.length)
    throw wrong(`nodes is not the number that publicKey has, ${publicKey.hArray.length}`)
  if (nodes > MAX_NODES) throw wrong(`there are more than ${MAX_NODES} nodes`)
  if (
    typeof threshold !== 'number' ||
    !Number.isInteger(threshold) ||
    threshold < 1 ||
    threshold > nodes
  )
    throw wrong(`threshold is not a whole number of 1 to ${nodes}`)
  return { threshold, owner: readOwner(fields.owner), publicKey }
}

/** The published form of a public key: lower-case hexadecimal digits of its JSON text. */
export function hexOf(publicKey: PublicKey): string {
  return Buffer.from(formatPublicKey(publicKey)).toString('hex')
}

function readOwner(owner: unknown): string {
  try {
    return checkOwner('owner', owner)
  } catch (error) {
    throw wrong((error as Error).message, error)
  }
}

function readPublicKey(hex: unknown): PublicKey {
  if (typeof hex !== 'string' || !/^([0-9a-f]{2})+$/.test(hex))
    throw wrong('publicKey is not lower-case hexadecimal digits')
  try {
    return parsePublicKey(Buffer.from(hex, 'hex').toString())
  } catch (error) {
    throw wrong(`publicKey is none: ${(error as Error).message}`, error)
  }
}

function wrong(what: string, cause?: unknown): VaultError {
  return new VaultError(`${MANIFEST_FILE}: ${what}`, cause === undefined ? {} : { cause })
}
