import { ValidationError } from '../../core/errors.js'
import { isBytes } from '../../core/options.js'
import { boxKeys, openSealed } from '../../crypto/sealed-box.js'
import {
  type Ciphertext,
  combine,
  type DecryptionShare,
  type PublicKey,
  parseCiphertext,
  parseDecryptionShare,
  verifyShare,
} from '../../crypto/tdh2/index.js'
import { VaultError } from './errors.js'
import type { Manifest } from './manifest.js'
import type { RespondingNode } from './node.js'

/** Decrypts an encrypted response with the first `threshold` valid shares of the nodes. */
export async function decryptResponse(
  { publicKey, threshold }: Pick<Manifest, 'publicKey' | 'threshold'>,
  nodes: readonly RespondingNode[],
  body: Uint8Array | string,
): Promise<Uint8Array> {
  const text = textOf(body)
  const recipient = boxKeys()
  try {
    const ciphertext = parseCiphertext(publicKey, text)
    const shares: DecryptionShare[] = []
    const failures = new Set<string>()
    for (const node of nodes) {
      if (shares.length === threshold) break
      try {
        const sealed = await node.releaseResponse(ciphertext, recipient.publicKey)
        const opened = openSealed(sealed, recipient)
        shares.push(readShare(opened, publicKey, ciphertext, node.index))
      } catch (error) {
        failures.add((error as Error).message)
      }
    }
    if (shares.length < threshold)
      throw new VaultError(
        `${shares.length} of the ${threshold} nodes needed gave a share: ${[...failures].join('; ')}`,
      )
    return await combine(ciphertext, shares, { threshold })
  } catch (error) {
    if (error instanceof VaultError) throw error
    throw new VaultError(`the response can't be decrypted: ${(error as Error).message}`, {
      cause: error,
    })
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
  opened: Uint8Array | undefined,
  publicKey: PublicKey,
  ciphertext: Ciphertext,
  index: number,
): DecryptionShare {
  if (opened === undefined) throw new VaultError(`node ${index} sealed its share to somebody else`)
  const share = parseDecryptionShare(Buffer.from(opened).toString())
  if (share.index !== index) throw new VaultError(`node ${index} gave the share of ${share.index}`)
  verifyShare(publicKey, ciphertext, share)
  return share
}
