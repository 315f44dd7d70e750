import { abortable } from '../../core/abortable.js'
import { asError, isStreamsError } from '../../core/errors.js'
import { checkOptions } from '../../core/options.js'
import { type BoxKeys, boxKeys, openSealed } from '../../crypto/sealed-box.js'
import {
  type Ciphertext,
  combine,
  createCiphertextReader,
  type DecryptionShare,
  ownerLabel,
  type PublicKey,
  parseDecryptionShare,
  verifyShare,
} from '../../crypto/tdh2/index.js'
import { VaultError } from '../../local/vault/errors.js'
import type { SecretName } from '../../local/vault/secret-name.js'
import type { EnclavePlugin } from './call.js'
import { createRedactor } from './secrets/redact.js'

/** The part of a threshold vault that an enclave uses. */
export interface SecretVault {
  /** The master public key. */
  readonly publicKey: PublicKey
  /** The number of nodes needed to release a secret. */
  readonly threshold: number
  /** The nodes of the vault. */
  readonly nodes: readonly SecretNode[]
  /** The TDH2 ciphertext stored under a name, as JSON. */
  ciphertext(name: SecretName): Promise<string>
}

/** One node of the vault. */
export interface SecretNode {
  /** Which share of the key the node holds, from 0. */
  readonly index: number
  /** The node's decryption share of a secret, as JSON sealed to an X25519 public key. */
  release(name: SecretName, recipient: Uint8Array): Promise<Uint8Array>
}

/** Options of `secrets`. */
export interface SecretsOptions {
  /** The vault that has the secrets. */
  readonly vault: SecretVault
}

/**
 * Gets the secrets that a request names from the vault, for that request only: the nodes seal their decryption shares to a key
 * made for the request, and the shares are verified and combined here. Redacts errors, log lines and headers of the answer
 * that repeat a secret.
 */
export function secrets(options: SecretsOptions): EnclavePlugin {
  const { vault } = checkOptions('secrets', options, { vault: true })
  const read = createCiphertextReader(vault.publicKey)
  return {
    name: 'secrets',
    call: next =>
      async function releaseSecrets(call) {
        const released = new Map<string, string>()
        const keys = boxKeys()
        try {
          for (const name of call.secrets) {
            checkOwner(name, call.owner)
            released.set(name.key, await abortable(release(vault, read, name, keys), call.signal))
          }
        } catch (thrown) {
          // The vault took too long: nothing was sent to the external server yet.
          throw isStreamsError(thrown, 'UPSTREAM_TIMEOUT')
            ? new VaultError('the secrets were not released in time', { cause: thrown })
            : thrown
        } finally {
          keys.secretKey.fill(0)
        }
        if (released.size === 0) return next(call)
        call.scope.log.debug?.(`secrets released: ${[...released.keys()].join(', ')}`)
        const redactor = createRedactor(released.values())
        const log = redactor.log(call.scope.log)
        try {
          const reply = await next({ ...call, released, scope: { ...call.scope, log } })
          const multiHeaders = redactor.headers(reply.multiHeaders)
          if (multiHeaders !== reply.multiHeaders)
            log.warn?.(`${call.operation}: headers of the answer repeat a secret and are redacted`)
          return { ...reply, multiHeaders }
        } catch (thrown) {
          throw redactor.error(thrown)
        }
      },
  }
}

/** Gets one secret from the vault for a workflow that asks for its value. From then on the workflow must protect it. */
export async function readSecret(vault: SecretVault, name: SecretName): Promise<string> {
  const keys = boxKeys()
  try {
    return await release(vault, createCiphertextReader(vault.publicKey), name, keys)
  } finally {
    keys.secretKey.fill(0)
  }
}

/** Rejects the secrets of other owners before the vault is asked, so that the answer does not show whether they exist. */
function checkOwner({ owner, key }: SecretName, caller: string): void {
  if (owner !== caller)
    throw new VaultError(
      `secret ${key}: its owner ${owner} is not ${caller}, whom this request is made for`,
    )
}

type ReadCiphertext = ReturnType<typeof createCiphertextReader>

async function release(
  vault: SecretVault,
  read: ReadCiphertext,
  name: SecretName,
  keys: BoxKeys,
): Promise<string> {
  const { threshold } = vault
  const ciphertext = checkCiphertext(read, name, await vault.ciphertext(name))
  const shares = await gatherShares(vault, name, ciphertext, keys)
  const bytes = await combine(ciphertext, shares, { threshold })
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new VaultError(`secret ${name.key}: its value is not valid UTF-8`)
  } finally {
    bytes.fill(0)
  }
}

/** Collects `threshold` valid shares. Asks so many nodes at once, and another one for each that fails. */
async function gatherShares(
  { publicKey, threshold, nodes }: SecretVault,
  name: SecretName,
  ciphertext: Ciphertext,
  keys: BoxKeys,
): Promise<readonly DecryptionShare[]> {
  async function askNode(node: SecretNode): Promise<DecryptionShare> {
    const opened = openSealed(await node.release(name, keys.publicKey), keys)
    if (opened === undefined) throw new VaultError('its share does not open')
    const share = parseDecryptionShare(new TextDecoder().decode(opened))
    if (share.index !== node.index) throw new VaultError(`its share is that of node ${share.index}`)
    verifyShare(publicKey, ciphertext, share)
    return share
  }

  const valid: DecryptionShare[] = []
  const failed: string[] = []
  for (let asked = 0; valid.length < threshold && asked < nodes.length; ) {
    const batch = nodes.slice(asked, asked + threshold - valid.length)
    asked += batch.length
    const answers = await Promise.allSettled(batch.map(askNode))
    for (const [index, answer] of answers.entries()) {
      if (answer.status === 'fulfilled') valid.push(answer.value)
      else failed.push(`node ${batch[index]?.index}: ${reasonOf(answer.reason)}`)
    }
  }
  if (valid.length === threshold) return valid
  const rule = `secret ${name.key}: ${valid.length} of the ${threshold} shares it takes are good`
  throw new VaultError([rule, ...failed].join('\n  '))
}

function checkCiphertext(
  read: ReadCiphertext,
  { key, owner }: SecretName,
  text: string,
): Ciphertext {
  let ciphertext: Ciphertext
  try {
    ciphertext = read(text)
  } catch (cause) {
    throw new VaultError(`secret ${key}: its entry is not a ciphertext of this vault`, { cause })
  }
  if (Buffer.compare(ciphertext.label, ownerLabel(owner)) === 0) return ciphertext
  throw new VaultError(`secret ${key}: its ciphertext was not made for ${owner}`)
}

/** Quotes errors of this library only: messages of others may hold a secret. */
function reasonOf(thrown: unknown): string {
  return isStreamsError(thrown) ? thrown.message : `it failed with ${asError(thrown).name}`
}
