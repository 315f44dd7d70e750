import { abortable } from '../../core/abortable.js'
import { asError, isStreamsError } from '../../core/errors.js'
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

/** The threshold vault, as an enclave sees it. */
export interface SecretVault {
  /** The master public key. */
  readonly publicKey: PublicKey
  /** How many nodes it takes to release a secret. */
  readonly threshold: number
  readonly nodes: readonly SecretNode[]
  /** What is stored under a name: a TDH2 ciphertext as JSON. */
  ciphertext(name: SecretName): Promise<string>
}

/** One node of the vault. */
export interface SecretNode {
  readonly index: number
  /** The node's decryption share of a secret, as JSON sealed to an X25519 public key. */
  release(name: SecretName, recipient: Uint8Array): Promise<Uint8Array>
}

/** Options of `secrets`. */
export interface SecretsOptions {
  readonly vault: SecretVault
}

/**
 * Has the vault release the secrets a request names, for that request only: its nodes seal their decryption shares to a
 * key made for it, the shares are verified and combined here, and forgotten with the request. Errors, lines of the log
 * and headers of the answer that repeat a secret are redacted.
 */
export function secrets({ vault }: SecretsOptions): EnclavePlugin {
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
          // The external server was not asked yet, so it is not what took too long.
          throw isStreamsError(thrown, 'UPSTREAM_TIMEOUT')
            ? new VaultError('the secrets were not released in time', { cause: thrown })
            : thrown
        } finally {
          keys.secretKey.fill(0)
        }
        if (released.size > 0)
          call.scope.log.debug?.(`secrets released: ${[...released.keys()].join(', ')}`)
        if (released.size === 0) return next(call)
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

/** Has the vault release one secret: for workflows that ask for its value, which is then as confidential as they keep it. */
export async function readSecret(vault: SecretVault, name: SecretName): Promise<string> {
  const keys = boxKeys()
  try {
    return await release(vault, createCiphertextReader(vault.publicKey), name, keys)
  } finally {
    keys.secretKey.fill(0)
  }
}

/** Nobody uses another's secrets; that a name exists is not told either. */
function checkOwner({ owner, key }: SecretName, caller: string): void {
  if (owner !== caller)
    throw new VaultError(
      `secret ${key}: its owner ${owner} is not ${caller}, whom this request is made for`,
    )
}

type Read = ReturnType<typeof createCiphertextReader>

async function release(
  vault: SecretVault,
  read: Read,
  name: SecretName,
  keys: BoxKeys,
): Promise<string> {
  const { threshold } = vault
  const ciphertext = readCiphertext(read, name, await vault.ciphertext(name))
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

/** The good shares of as many nodes as it takes. As many are asked at once; for each that fails, another one. */
async function gatherShares(
  { publicKey, threshold, nodes }: SecretVault,
  name: SecretName,
  ciphertext: Ciphertext,
  keys: BoxKeys,
): Promise<readonly DecryptionShare[]> {
  async function ask(node: SecretNode): Promise<DecryptionShare> {
    const opened = openSealed(await node.release(name, keys.publicKey), keys)
    if (opened === undefined) throw new VaultError('its share does not open')
    const share = parseDecryptionShare(new TextDecoder().decode(opened))
    if (share.index !== node.index) throw new VaultError(`its share is that of node ${share.index}`)
    verifyShare(publicKey, ciphertext, share)
    return share
  }

  const good: DecryptionShare[] = []
  const bad: string[] = []
  for (let asked = 0; good.length < threshold && asked < nodes.length; ) {
    const batch = nodes.slice(asked, asked + threshold - good.length)
    asked += batch.length
    const answers = await Promise.allSettled(batch.map(ask))
    for (const [index, answer] of answers.entries()) {
      if (answer.status === 'fulfilled') good.push(answer.value)
      else bad.push(`node ${batch[index]?.index}: ${reasonOf(answer.reason)}`)
    }
  }
  if (good.length === threshold) return good
  const rule = `secret ${name.key}: ${good.length} of the ${threshold} shares it takes are good`
  throw new VaultError([rule, ...bad].join('\n  '))
}

function readCiphertext(read: Read, { key, owner }: SecretName, text: string): Ciphertext {
  let ciphertext: Ciphertext
  try {
    ciphertext = read(text)
  } catch (cause) {
    throw new VaultError(`secret ${key}: what is stored is no ciphertext of this vault`, { cause })
  }
  if (equal(ciphertext.label, ownerLabel(owner))) return ciphertext
  throw new VaultError(`secret ${key}: what is stored was not encrypted for ${owner}`)
}

function equal(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index])
}

/** Only our own errors are known to hold no secret. */
function reasonOf(thrown: unknown): string {
  return isStreamsError(thrown) ? thrown.message : `it failed with ${asError(thrown).name}`
}
