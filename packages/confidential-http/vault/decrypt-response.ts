import { isStreamsError, ValidationError } from 'sluice/core'
import { type BoxKeys, boxKeys, isBytes, openSealed } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import {
  type Ciphertext,
  combine,
  type DecryptionShare,
  type PublicKey,
  parseCiphertext,
  parseDecryptionShare,
  verifyShare,
} from 'sluice/tdh2'
import type { RespondingHolder } from './embedded-holder.js'

/** What it takes to decrypt: a vault's key and its holders. */
export interface Decrypting {
  readonly publicKey: PublicKey
  readonly threshold: number
  readonly holders: readonly RespondingHolder[]
}

/** Decrypts an encrypted response with the first `threshold` valid shares of the holders. */
export async function decryptResponse(
  decrypting: Decrypting,
  body: Uint8Array | string,
): Promise<Uint8Array> {
  const text = textOf(body)
  try {
    return await decryptWithHolders(decrypting, text, (holder, recipient) =>
      holder.releaseResponse(text, recipient),
    )
  } catch (error) {
    // A share that others may read is the vault's failure, and says so itself.
    if (error instanceof VaultError || isStreamsError(error, 'PERMISSIONS')) throw error
    throw new VaultError(`the response can't be decrypted: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/** Decrypts a ciphertext with the first `threshold` valid shares, which `ask` gets of the holders. */
export async function decryptWithHolders(
  { publicKey, threshold, holders }: Decrypting,
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
        shares.push(readShare(sealed, recipient, publicKey, ciphertext, holder.index))
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

function readShare(
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
