import { join } from 'node:path'
import { formatPublicKey, type PublicKey, parsePublicKey } from '../../crypto/tdh2/index.js'
import { writeWhole } from '../files.js'
import { VaultError } from './errors.js'
import { readFields } from './files.js'
import type { Permissions } from './permissions.js'
import { checkOwner } from './secret-name.js'

/** The contents of a vault's vault.json. */
export interface Manifest {
  readonly threshold: number
  readonly owner: string
  readonly publicKey: PublicKey
  /** Lower-case hexadecimal digits of the public key's JSON. */
  readonly publicKeyHex: string
}

const VERSION = 1
const MAX_BYTES = 65_536
/** The most nodes a vault may have. */
export const MAX_NODES = 31
/** The file that makes a directory a vault. */
export const MANIFEST_FILE = 'vault.json'

/** Writes the manifest of a vault. */
export async function writeManifest(
  directory: string,
  { threshold, owner, publicKey, publicKeyHex }: Manifest,
): Promise<void> {
  const nodes = publicKey.hArray.length
  const fields = { version: VERSION, threshold, nodes, owner, publicKey: publicKeyHex }
  await writeWhole(join(directory, MANIFEST_FILE), `${JSON.stringify(fields, null, 2)}\n`)
}

/** Reads the manifest of a vault; undefined if the directory is not a vault. */
export async function readManifest(
  directory: string,
  permissions: Permissions,
): Promise<Manifest | undefined> {
  const fields = await readFields(join(directory, MANIFEST_FILE), {
    shown: MANIFEST_FILE,
    maxBytes: MAX_BYTES,
    content: 'public',
    permissions,
  })
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
  const owner = readOwner(fields.owner)
  return { threshold, owner, publicKey, publicKeyHex: hexOf(publicKey) }
}

/** The published form of a public key. */
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
