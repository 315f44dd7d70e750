import { checkName, checkPublicKey, formatName, seal } from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import {
  type Ciphertext,
  createCiphertextReader,
  createShare,
  ownerLabel,
  type PrivateShare,
  type PublicKey,
} from 'sluice/tdh2'
import { createBatch } from './batch.js'
import type { VaultFolder } from './files.js'
import { readShare, shareFile } from './share-files.js'

/** A holder of a vault. It holds one share of the key. */
export interface VaultHolder {
  /** From 0 on. */
  readonly index: number
  /** The URL of a holder that is a process of its own. */
  readonly url?: string
  /**
   * The holder's decryption share of a stored secret, as JSON text sealed to `recipient`, an X25519 public key of 32
   * bytes. The holder reads the secret's ciphertext itself, and rejects one that is not labelled with the owner's
   * address.
   */
  release(name: SecretName, recipient: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>
}

/** A holder, as the vault itself uses it. */
export interface RespondingHolder extends VaultHolder {
  /** As `release`, for an encrypted response: its label is zeros, which no secret has. */
  releaseResponse(body: string, recipient: Uint8Array): Promise<Uint8Array>
}

/** What a holder makes decryption shares with. */
export interface Releasing {
  readonly publicKey: PublicKey
  readShare(): Promise<PrivateShare>
}

const RESPONSE_LABEL = new Uint8Array(32)

/** Makes sealed decryption shares, of secrets with their owner's label and of responses with none. */
export interface ShareMaker {
  ofSecret(name: SecretName, ciphertext: string, recipient: Uint8Array): Promise<Uint8Array>
  ofResponse(body: string, recipient: Uint8Array): Promise<Uint8Array>
}

/** Checks what a holder is asked to decrypt, and decrypts its part. */
export function createShareMaker({ publicKey, readShare }: Releasing): ShareMaker {
  const readCiphertext = createCiphertextReader(publicKey)

  async function sealShare(ciphertext: Ciphertext, recipient: Uint8Array): Promise<Uint8Array> {
    return seal(Buffer.from(createShare(ciphertext, await readShare())), recipient)
  }

  return {
    async ofSecret(name, json, recipient) {
      checkPublicKey('recipient', recipient)
      let ciphertext: Ciphertext
      try {
        ciphertext = readCiphertext(json)
      } catch (error) {
        throw new VaultError(`${formatName(name)}: ${(error as Error).message}`, { cause: error })
      }
      if (Buffer.compare(ciphertext.label, ownerLabel(name.owner)) !== 0)
        throw new VaultError(`${formatName(name)} was encrypted for another owner`)
      return sealShare(ciphertext, recipient)
    },
    async ofResponse(body, recipient) {
      checkPublicKey('recipient', recipient)
      const ciphertext = readCiphertext(body)
      if (Buffer.compare(ciphertext.label, RESPONSE_LABEL) !== 0)
        throw new VaultError('the response has the label of a secret')
      return sealShare(ciphertext, recipient)
    },
  }
}

/** A holder of the vault in this directory. It reads its share for each release. */
export function createEmbeddedHolder(
  index: number,
  folder: VaultFolder,
  { generation, publicKey }: { readonly generation: number; readonly publicKey: PublicKey },
  ciphertextOf: (name: SecretName) => Promise<string>,
): RespondingHolder {
  const file = shareFile(generation, index)
  const maker = createShareMaker({
    publicKey,
    // Requests at once share it, and it is in memory no longer than they take.
    readShare: createBatch(() => readShare(folder, file, publicKey, index)),
  })
  return {
    index,
    async release(given, recipient) {
      checkPublicKey('recipient', recipient)
      const name = checkName(given)
      return maker.ofSecret(name, await ciphertextOf(name), recipient)
    },
    releaseResponse: maker.ofResponse,
  }
}
