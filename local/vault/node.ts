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
import { readFields, writeWhole } from './files.js'
import type { Permissions } from './permissions.js'
import type { SecretName } from './secret-name.js'
import { checkName, formatName } from './secret-name.js'
import type { SecretStore } from './secret-store.js'

/** One of the nodes of a vault: it holds one share of the key. */
export interface VaultNode {
  /** From 0 on. */
  readonly index: number
  /**
   * The node's decryption share of a stored secret, as JSON text sealed to `recipient`, an X25519 public key of 32 bytes.
   * The node reads the secret's ciphertext itself, and refuses one that is not labelled with the owner's address.
   */
  release(name: SecretName, recipient: Uint8Array): Promise<Uint8Array>
}

/** What the vault itself can ask of a node besides. */
export interface RespondingNode extends VaultNode {
  /** As `release`, of an encrypted response: one whose label is zeros, which no secret has. */
  releaseResponse(ciphertext: Ciphertext, recipient: Uint8Array): Promise<Uint8Array>
}

/** The folder with a file for the share of each node. */
export const NODES_FOLDER = 'nodes'

const MAX_BYTES = 1024
const RESPONSE_LABEL = new Uint8Array(32)

/** A node of the vault in this directory. Its share is read anew for each release. */
export function createNode(
  index: number,
  directory: string,
  publicKey: PublicKey,
  store: Pick<SecretStore, 'read'>,
  permissions: Permissions,
): RespondingNode {
  const file = fileOf(index)
  const readCiphertext = createCiphertextReader(publicKey)

  async function readShare(): Promise<PrivateShare> {
    const fields = await readFields(join(directory, file), {
      shown: file,
      maxBytes: MAX_BYTES,
      content: 'secret',
      permissions,
    })
    if (fields === undefined) throw new VaultError(`${file} is missing`)
    let share: PrivateShare
    try {
      share = parsePrivateShare(JSON.stringify(fields))
    } catch {
      // No cause: nothing that was read from this file is to be seen anywhere.
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

  async function releaseOf(ciphertext: Ciphertext, recipient: Uint8Array): Promise<Uint8Array> {
    return seal(Buffer.from(createShare(ciphertext, await readShare())), recipient)
  }

  return {
    index,
    async release(given, recipient) {
      checkPublicKey('recipient', recipient)
      const name = checkName(given)
      const ciphertext = parse(await store.read(name), name)
      if (!isSameLabel(ciphertext, ownerLabel(name.owner)))
        throw new VaultError(`${formatName(name)} was encrypted for another owner`)
      return releaseOf(ciphertext, recipient)
    },
    async releaseResponse(ciphertext, recipient) {
      if (!isSameLabel(ciphertext, RESPONSE_LABEL))
        throw new VaultError('the response has the label of a secret')
      return releaseOf(ciphertext, recipient)
    },
  }
}

/** Writes the file of a node. */
export async function writeShare(directory: string, share: PrivateShare): Promise<void> {
  await writeWhole(join(directory, fileOf(share.index)), `${formatPrivateShare(share)}\n`)
}

/** Rejects where others may do with the share of any node what they must not. Missing and wrong shares only show when asked. */
export async function checkShareFiles(
  directory: string,
  count: number,
  permissions: Permissions,
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

function isSameLabel({ label }: Ciphertext, expected: Uint8Array): boolean {
  return Buffer.compare(label, expected) === 0
}
