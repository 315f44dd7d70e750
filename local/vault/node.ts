import { createECDH } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { checkPublicKey, seal } from '../../crypto/sealed-box.js'
import {
  type Ciphertext,
  createCiphertextReader,
  createShare,
  formatPrivateShare,
  formatPublicKey,
  ownerLabel,
  type PrivateShare,
  type PublicKey,
  parsePrivateShare,
} from '../../crypto/tdh2/index.js'
import { VaultError } from './errors.js'
import type { VaultFolder } from './files.js'
import { checkName, formatName, type SecretName } from './secret-name.js'
import type { SecretStore } from './secret-store.js'

/** A node of a vault. It holds one share of the key. */
export interface VaultNode {
  /** From 0 on. */
  readonly index: number
  /**
   * The node's decryption share of a stored secret, as JSON text sealed to `recipient`, an X25519 public key of 32
   * bytes. The node reads the secret's ciphertext itself, and rejects one that is not labelled with the owner's
   * address.
   */
  release(name: SecretName, recipient: Uint8Array): Promise<Uint8Array>
}

/** A node, as the vault itself uses it. */
export interface RespondingNode extends VaultNode {
  /** As `release`, for an encrypted response: its label is zeros, which no secret has. */
  releaseResponse(ciphertext: Ciphertext, recipient: Uint8Array): Promise<Uint8Array>
}

/** The folder of the share files. */
export const NODES_FOLDER = 'nodes'

const MAX_BYTES = 1024
const RESPONSE_LABEL = new Uint8Array(32)

/** A node of the vault in this directory. It reads its share for each release. */
export function createNode(
  index: number,
  folder: VaultFolder,
  publicKey: PublicKey,
  store: Pick<SecretStore, 'read'>,
): RespondingNode {
  const file = fileOf(index)
  const readCiphertext = createCiphertextReader(publicKey)

  async function readShare(): Promise<PrivateShare> {
    const fields = await folder.read(file, MAX_BYTES, 'secret')
    if (fields === undefined) throw new VaultError(`${file} is missing`)
    let share: PrivateShare
    try {
      share = parsePrivateShare(JSON.stringify(fields))
    } catch {
      // No cause: it could show the contents of this file.
      throw new VaultError(`${file} is not a private share`)
    }
    if (share.index !== index) throw new VaultError(`${file} is the share of node ${share.index}`)
    if (publicPoint(share) !== pointOf(publicKey, index))
      throw new VaultError(`${file} is not the share of this vault's node ${index}`)
    return share
  }

  function parse(ciphertext: string, name: SecretName): Ciphertext {
    try {
      return readCiphertext(ciphertext)
    } catch (error) {
      throw new VaultError(`${formatName(name)}: ${(error as Error).message}`, { cause: error })
    }
  }

  async function sealShare(ciphertext: Ciphertext, recipient: Uint8Array): Promise<Uint8Array> {
    return seal(Buffer.from(createShare(ciphertext, await readShare())), recipient)
  }

  return {
    index,
    async release(given, recipient) {
      checkPublicKey('recipient', recipient)
      const name = checkName(given)
      const ciphertext = parse(await store.read(name), name)
      if (Buffer.compare(ciphertext.label, ownerLabel(name.owner)) !== 0)
        throw new VaultError(`${formatName(name)} was encrypted for another owner`)
      return sealShare(ciphertext, recipient)
    },
    async releaseResponse(ciphertext, recipient) {
      if (Buffer.compare(ciphertext.label, RESPONSE_LABEL) !== 0)
        throw new VaultError('the response has the label of a secret')
      return sealShare(ciphertext, recipient)
    },
  }
}

/** Writes the file of a node. */
export async function writeShare(folder: VaultFolder, share: PrivateShare): Promise<void> {
  await folder.write(fileOf(share.index), formatPrivateShare(share))
}

/** Rejects if the permissions of any share file are too wide. Missing and wrong shares are found when a node releases. */
export async function checkShareFiles(
  { directory, permissions }: VaultFolder,
  count: number,
): Promise<void> {
  for (let index = 0; index < count; index++) {
    const file = fileOf(index)
    const entry = await stat(join(directory, file)).catch(() => undefined)
    if (entry?.isFile() === true) permissions.checkFile(file, entry, 'secret')
  }
}

function fileOf(index: number): string {
  return `${NODES_FOLDER}/${index}.json`
}

/** The share times G, as base64 of the uncompressed point. */
function publicPoint({ v }: PrivateShare): string {
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(v.toString(16).padStart(64, '0'), 'hex')
  return pair.getPublicKey('base64')
}

function pointOf(publicKey: PublicKey, index: number): unknown {
  return (JSON.parse(formatPublicKey(publicKey)) as { HArray: unknown[] }).HArray[index]
}
