import {
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto'
import { stat } from 'node:fs/promises'
import { checkOwner } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import { checkFields, hexText, textLike, type VaultFolder } from './files.js'

/** The facts of a vault that never change: the contents of vault.json. */
export interface Identity {
  /** The owner of secrets that are put without an owner. */
  readonly owner: string
  /** The public key that verifies the manifests. */
  readonly writer: string
}

/** The version of vault.json. */
const VERSION = 2
/** The longest vault.json or writer.json. Both contain only two or three short texts. */
const MAX_BYTES = 4096
/** The file that marks a directory as a vault. */
export const VAULT_FILE = 'vault.json'

/** Writes vault.json. */
export async function writeIdentity(folder: VaultFolder, identity: Identity): Promise<void> {
  await folder.write(VAULT_FILE, JSON.stringify({ version: VERSION, ...identity }, null, 2))
}

/** Reads vault.json. Returns undefined if the directory is not a vault. */
export async function readIdentity(folder: VaultFolder): Promise<Identity | undefined> {
  const fields = await folder.read(VAULT_FILE, MAX_BYTES, 'public')
  if (fields === undefined) return undefined
  const { version, writer, owner } = fields
  if (version === 1)
    throw new VaultError(
      `${VAULT_FILE}: its version is 1, of sluice 0.1: make a vault, and put the secrets there`,
    )
  if (version !== VERSION) throw new VaultError(`${VAULT_FILE}: its version is not ${VERSION}`)
  checkFields(VAULT_FILE, fields, { writer: hexText, owner: checkOwner })
  return { owner: checkOwner('owner', owner), writer: writer as string }
}

/** Signs the manifests of a vault, and the orders and steps for its holders. */
export interface Writer {
  /** The public key: 64 hexadecimal digits. */
  readonly publicKey: string
  /** The signature of a text, in base64. */
  sign(text: string): string
}

/** The file of the writer's secret key. */
export const WRITER_FILE = 'writer.json'
/**
 * The bytes before the 32 bytes of an Ed25519 key: in PKCS #8 for a secret key, in SPKI for a
 * public key.
 */
const SECRET_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')
const PUBLIC_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** Makes the writer of a new vault, and the text of its file. */
export function createWriter(): { readonly writer: Writer; readonly text: string } {
  const seed = randomBytes(32)
  const secretKey = seed.toString('hex')
  const writer = writerOf(seed)
  return { writer, text: JSON.stringify({ publicKey: writer.publicKey, secretKey }, null, 2) }
}

/** Reads the writer's key. Rejects unless its public key is this one. */
export async function readWriter(folder: VaultFolder, publicKey: string): Promise<Writer> {
  const fields = await folder.read(WRITER_FILE, MAX_BYTES, 'secret')
  if (fields === undefined)
    throw new VaultError(`${WRITER_FILE} is missing: only who has it can change the vault`)
  checkFields(WRITER_FILE, fields, {
    secretKey: textLike(/^[0-9a-f]{64}$/, '64 hexadecimal digits'),
  })
  const writer = writerOf(Buffer.from(fields.secretKey as string, 'hex'))
  if (writer.publicKey !== publicKey)
    throw new VaultError(`${WRITER_FILE} is not the key of this vault's writer`)
  return writer
}

/** Rejects if the writer's file exists and others can read it. */
export async function checkWriterFile(folder: VaultFolder): Promise<void> {
  const entry = await stat(folder.path(WRITER_FILE)).catch(() => undefined)
  if (entry?.isFile() === true) folder.permissions.checkFile(WRITER_FILE, entry, 'secret')
}

function writerOf(seed: Buffer): Writer {
  const key = createPrivateKey({
    key: Buffer.concat([SECRET_PREFIX, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' })
  return {
    publicKey: spki.subarray(PUBLIC_PREFIX.length).toString('hex'),
    sign: text => sign(null, Buffer.from(text), key).toString('base64'),
  }
}

/** True if the text was signed with the secret key of this writer. */
export function isSigned(text: string, signature: string, publicKey: string): boolean {
  let key: KeyObject
  try {
    const spki = Buffer.concat([PUBLIC_PREFIX, Buffer.from(publicKey, 'hex')])
    key = createPublicKey({ key: spki, format: 'der', type: 'spki' })
  } catch {
    return false
  }
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64'))
}
