import { abortable } from '../../../core/async.js'
import { isStreamsError } from '../../../core/errors.js'
import { checkOptions } from '../../../core/options.js'
import type { WebCrypto } from '../../../crypto/crypto.js'
import { boxKeys } from '../../../crypto/sealed-box.js'
import {
  type Ciphertext,
  combine,
  createCiphertextReader,
  ownerLabel,
  type PublicKey,
} from '../../../crypto/tdh2/index.js'
import { nativeCrypto } from '../../../platform/native-crypto.js'
import type { EnclavePlugin } from '../call.js'
import { EnclaveError } from '../errors.js'
import type { SecretName } from '../secret-name.js'
import { readUse, type SecretUse } from '../secret-policy.js'
import { VaultError } from '../vault-error.js'
import { gatherShares } from './gather-shares.js'
import type { FailureTimes, ShareHolder, ShareRequest } from './holder-order.js'
import { createRedactor } from './redact.js'

export type { ShareHolder }

/** The part of a threshold vault that an enclave uses. */
export interface SecretVault {
  /** The master public key. */
  readonly publicKey: PublicKey
  /** The number of holders needed to release a secret. */
  readonly threshold: number
  /** The holders of the vault. */
  readonly holders: readonly ShareHolder[]
  /** The TDH2 ciphertext stored under a name, as JSON. */
  ciphertext(name: SecretName): Promise<string>
  /** The vault as it is now, for one whose key and holders change: the same object until they do. */
  current?(): Promise<SecretVault>
}

const nodeCrypto = nativeCrypto as WebCrypto

/** Options of `secrets`. */
export interface SecretsOptions {
  /** The vault that has the secrets. */
  readonly vault: SecretVault
}

/**
 * Gets the secrets that a request names from the vault, for that request only: the holders seal their decryption shares to a key
 * made for the request, and the shares are combined here, and verified if they do not combine. Redacts errors, log lines and headers of the answer
 * that repeat a secret.
 */
export function secrets(options: SecretsOptions): EnclavePlugin {
  const { vault } = checkOptions('secrets', options, { vault: true })
  const { release } = createReleasing(vault)
  return {
    name: 'secrets',
    call: next =>
      async function releaseSecrets(call) {
        const released = new Map<string, string>()
        const policies = new Map<string, SecretUse>()
        const keys = boxKeys()
        try {
          for (const name of call.secrets) {
            checkOwner(name, call.owner)
            const { signal, scope } = call
            const asked = release({ name, keys, signal, log: scope.log })
            const { value, use } = await abortable(asked, signal)
            released.set(name.key, value)
            if (use !== undefined) policies.set(name.key, use)
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
          const reply = await next({ ...call, released, policies, scope: { ...call.scope, log } })
          const multiHeaders = redactor.headers(reply.multiHeaders)
          if (multiHeaders !== reply.multiHeaders)
            log.warn?.(`${call.operation}: headers of the answer repeat a secret and are redacted`)
          return { ...reply, multiHeaders }
        } catch (thrown) {
          throw redactor.error(thrown)
        } finally {
          redactor.wipe()
        }
      },
  }
}

/** Gets one secret from the vault for a workflow that asks for its value. From then on the workflow must protect it. */
export async function readSecret(vault: SecretVault, name: SecretName): Promise<string> {
  const keys = boxKeys()
  try {
    const { value, use = 'anywhere' } = await createReleasing(vault).release({ name, keys })
    if (use === 'anywhere') return value
    throw new EnclaveError(
      `secret ${name.key} has a policy, and so is put into requests alone: no workflow gets its value`,
      { code: 'SECRET_POLICY', mayHaveBeenSent: false },
    )
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

/** How often a secret is asked for again because the vault has changed meanwhile. */
const MAX_CHANGES = 10

/** A value, and where it may go if that was said. */
interface Released {
  readonly value: string
  readonly use?: SecretUse
}

/** Gets secrets from a vault. */
interface Releasing {
  /** Gets one secret, sealed to these keys. */
  release(request: Omit<ShareRequest, 'ciphertext'>): Promise<Released>
}

function createReleasing(vault: SecretVault): Releasing {
  const readers = new WeakMap<PublicKey, ReadCiphertext>()
  const failures: FailureTimes = new Map()

  async function releaseFrom(
    now: SecretVault,
    request: Omit<ShareRequest, 'ciphertext'>,
  ): Promise<Released> {
    const { publicKey, threshold } = now
    const { name } = request
    const read = readers.get(publicKey) ?? createCiphertextReader(publicKey)
    readers.set(publicKey, read)
    const ciphertext = checkCiphertext(read, name, await now.ciphertext(name))
    const asked = { ...request, ciphertext }
    const shares = await gatherShares(now, asked, failures)
    const bytes = await combine(ciphertext, shares, { threshold, crypto: nodeCrypto }).catch(
      async () => {
        // Either a holder lies or the message was changed.
        const verified = await gatherShares(now, { ...asked, suspects: shares }, failures)
        return combine(ciphertext, verified, { threshold, crypto: nodeCrypto })
      },
    )
    try {
      const { value, use } = readUse(bytes)
      const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value)
      return { value: text, ...(use === undefined ? {} : { use }) }
    } catch (thrown) {
      const why = thrown instanceof VaultError ? thrown.message : 'its value is not valid UTF-8'
      throw new VaultError(`secret ${name.key}: ${why}`)
    } finally {
      bytes.fill(0)
    }
  }

  return {
    async release(request) {
      let now = (await vault.current?.()) ?? vault
      for (let changes = 0; ; changes++) {
        try {
          return await releaseFrom(now, request)
        } catch (thrown) {
          const later = request.signal?.aborted ? now : ((await vault.current?.()) ?? vault)
          // Its holders have other shares now, or the secret another version.
          if (later === now || changes === MAX_CHANGES) throw thrown
          now = later
        }
      }
    },
  }
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
