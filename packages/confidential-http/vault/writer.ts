import {
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto'
import { stat } from 'node:fs/promises'
import { VaultError } from 'sluice/plugins/confidential-http'
import type { VaultFolder } from './files.js'

/** Signs the manifests of a vault, and the orders to its holders. */
export interface Writer {
  /** The public key: 64 hexadecimal digits. */
  readonly publicKey: string
  /** The signature of a text, in base64. */
  sign(text: string): string
}

/** The file of the writer's secret key. */
export const WRITER_FILE = 'writer.json'

const MAX_BYTES = 1024
/** What stands before the 32 bytes of a key of Ed25519 in PKCS #8 and in SPKI. */
const SECRET_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')
const PUBLIC_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** Makes the writer of a new vault, and the text of its file. */
export function createWriter(): { readonly writer: Writer; readonly text: string } {
  const seed = randomBytes(32)
  const secretKey = seed.toString('hex')
  const writer = writerOf(seed)
  return { writer, text: JSON.stringify({ publicKey: writer.publicKey, secretKey }, null, 2) }
}

/** Reads the writer of a vault with this public key. */
export async function readWriter(folder: VaultFolder, publicKey: string): Promise<Writer> {
  const fields = await folder.read(WRITER_FILE, MAX_BYTES, 'secret')
  if (fields === undefined)
    throw new VaultError(`${WRITER_FILE} is missing: only who has it can change the vault`)
  const { secretKey } = fields
  if (typeof secretKey !== 'string' || !/^[0-9a-f]{64}$/.test(secretKey))
    throw new VaultError(`${WRITER_FILE}: secretKey is not 64 hexadecimal digits`)
  const writer = writerOf(Buffer.from(secretKey, 'hex'))
  if (writer.publicKey !== publicKey)
    throw new VaultError(`${WRITER_FILE} is not the key of this vault's writer`)
  return writer
}

/** Rejects if others can read the file of the writer, if it is there. */
export async function checkWriterFile({ directory, permissions }: VaultFolder): Promise<void> {
  const entry = await stat(`${directory}/${WRITER_FILE}`).catch(() => undefined)
  if (entry?.isFile() === true) permissions.checkFile(WRITER_FILE, entry, 'secret')
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

/** True where the holder of a writer's key has signed the text. */
export function isSigned(text: string, signature: string, publicKey: string): boolean {
  let key: KeyObject
  try {
    key = createPublicKey({
      key: Buffer.concat([PUBLIC_PREFIX, Buffer.from(publicKey, 'hex')]),
      format: 'der',
      type: 'spki',
    })
  } catch {
    return false
  }
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64'))
}

/** Checks the public key of a writer. */
export function isWriterKey(key: unknown): key is string {
  return typeof key === 'string' && /^[0-9a-f]{64}$/.test(key)
}
