import { isStreamsError, ValidationError } from 'sluice/core'
import {
  type BoxKeys,
  boxKeys,
  checkBoxPublicKey,
  formatName,
  isBytes,
  openSealed,
  seal,
} from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import {
  type Ciphertext,
  combine,
  createCiphertextReader,
  createShare,
  type DecryptionShare,
  ownerLabel,
  type PrivateShare,
  type PublicKey,
  parseCiphertext,
  parseDecryptionShare,
  verifyShare,
} from 'sluice/tdh2'
import type { RespondingHolder, VaultState } from './vault.js'

/** The label of an encrypted response. No secret has this label. */
const RESPONSE_LABEL = new Uint8Array(32)

/**
 * Checks the ciphertexts that a holder is asked to decrypt, and makes the holder's sealed
 * decryption shares.
 */
export class ShareMaker {
  readonly #readCiphertext: (json: string) => Ciphertext
  readonly #readShare: () => Promise<PrivateShare>

  constructor(publicKey: PublicKey, readShare: () => Promise<PrivateShare>) {
    this.#readCiphertext = createCiphertextReader(publicKey)
    this.#readShare = readShare
  }

  /** The decryption share of a secret, whose label must be that of its owner. */
  async ofSecret(name: SecretName, json: string, recipient: Uint8Array): Promise<Uint8Array> {
    checkBoxPublicKey('recipient', recipient)
    let ciphertext: Ciphertext
    try {
      ciphertext = this.#readCiphertext(json)
    } catch (error) {
      throw new VaultError(`${formatName(name)}: ${(error as Error).message}`, { cause: error })
    }
    if (Buffer.compare(ciphertext.label, ownerLabel(name.owner)) !== 0)
      throw new VaultError(`${formatName(name)} was encrypted for another owner`)
    return this.#sealShare(ciphertext, recipient)
  }

  /** The decryption share of an encrypted response. Its label belongs to no owner. */
  async ofResponse(body: string, recipient: Uint8Array): Promise<Uint8Array> {
    checkBoxPublicKey('recipient', recipient)
    const ciphertext = this.#readCiphertext(body)
    if (Buffer.compare(ciphertext.label, RESPONSE_LABEL) !== 0)
      throw new VaultError('the response has the label of a secret')
    return this.#sealShare(ciphertext, recipient)
  }

  async #sealShare(ciphertext: Ciphertext, recipient: Uint8Array): Promise<Uint8Array> {
    return seal(Buffer.from(createShare(ciphertext, await this.#readShare())), recipient)
  }
}

/** Decrypts an encrypted response with the first `threshold` valid shares of the holders. */
export async function openShareResponse(
  state: VaultState,
  body: Uint8Array | string,
): Promise<Uint8Array> {
  const text = textOf(body)
  try {
    return await decryptWithHolders(state, text, (holder, recipient) =>
      holder.releaseResponse(text, recipient),
    )
  } catch (error) {
    // These errors already explain a failure of the vault, such as a share file that others may
    // read.
    if (error instanceof VaultError || isStreamsError(error, 'PERMISSIONS')) throw error
    throw new VaultError(`the response can't be decrypted: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/**
 * Decrypts a ciphertext with the first `threshold` valid shares. `ask` gets a share from a holder.
 */
export async function decryptWithHolders(
  { publicKey, threshold, holders }: VaultState,
  text: string,
  ask: (holder: RespondingHolder, recipient: Uint8Array) => Promise<Uint8Array>,
): Promise<Uint8Array> {
  const recipient = boxKeys()
  try {
    const ciphertext = parseCiphertext(publicKey, text)
    const shares: DecryptionShare[] = []
    const failures = new Set<string>()
    const codes = new Set<unknown>()
    for (const holder of holders) {
      if (shares.length === threshold) break
      try {
        const sealed = await ask(holder, recipient.publicKey)
        shares.push(openShare(sealed, recipient, publicKey, ciphertext, holder.index))
      } catch (error) {
        failures.add((error as Error).message)
        codes.add((error as Partial<VaultError>).code)
      }
    }
    if (shares.length < threshold)
      throw new VaultError(
        `${shares.length} of the ${threshold} holders needed gave a share: ${[...failures].join('; ')}`,
        codes.size === 1 && codes.has('ROLLBACK') ? { code: 'ROLLBACK' } : {},
      )
    return await combine(ciphertext, shares, { threshold })
  } finally {
    recipient.secretKey.fill(0)
  }
}

function textOf(body: Uint8Array | string): string {
  if (typeof body === 'string') return body
  if (!isBytes(body)) throw new ValidationError('body must be a string or a Uint8Array')
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')
}

function openShare(
  sealed: Uint8Array,
  recipient: BoxKeys,
  publicKey: PublicKey,
  ciphertext: Ciphertext,
  index: number,
): DecryptionShare {
  const opened = openSealed(sealed, recipient)
  if (opened === undefined)
    throw new VaultError(`holder ${index} sealed its share to somebody else`)
  const share = parseDecryptionShare(Buffer.from(opened).toString())
  if (share.index !== index)
    throw new VaultError(`holder ${index} gave the share of ${share.index}`)
  verifyShare(publicKey, ciphertext, share)
  return share
}
