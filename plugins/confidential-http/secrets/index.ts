import { abortable } from '../../../core/async.js'
import { isStreamsError } from '../../../core/errors.js'
import { readOptions, unchecked } from '../../../core/options.js'
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
import { EnclaveError, VaultError } from '../errors.js'
import { readUse, type SecretName, type SecretUse } from '../secret.js'
import { type FailureTimes, gatherShares, type ShareHolder, type ShareRequest } from './gather.js'
import { Redactor } from './redact.js'

export type { ShareHolder }

/** The members of a threshold vault that an enclave uses. */
export interface SecretVault {
  /** The master public key. */
  readonly publicKey: PublicKey
  /** The number of holders needed to release a secret. */
  readonly threshold: number
  /** The holders of the vault. */
  readonly holders: readonly ShareHolder[]
  /** Returns the TDH2 ciphertext that is stored under a name, as JSON. */
  ciphertext(name: SecretName): Promise<string>
  /**
   * Returns the current state of a vault whose key and holders can change. Returns the same object
   * until they change.
   */
  current?(): Promise<SecretVault>
}

/** Options of `secrets`. */
export interface SecretsOptions {
  /** The vault that stores the secrets. */
  readonly vault: SecretVault
}

/**
 * Gets the secrets that a request names from the vault, for that request only. The holders seal
 * their decryption shares to a key that is made for the request. This plugin combines the shares,
 * and verifies them only if they do not combine. It redacts errors, log lines and headers of the
 * answer if they repeat a secret.
 */
export function secrets(options: SecretsOptions): EnclavePlugin {
  const { vault } = readOptions('secrets', options, { vault: unchecked<SecretVault> })
  const reader = new SecretReader(vault)
  return {
    name: 'secrets',
    call: next =>
      async function releaseSecrets(call) {
        const { scope, signal, operation } = call
        const released = new Map<string, string>()
        const policies = new Map<string, SecretUse>()
        const keys = boxKeys()
        try {
          for (const name of call.secrets) {
            checkOwner(name, call.owner)
            const asked = reader.read({ name, keys, signal, log: scope.log })
            const { value, use } = await abortable(asked, signal)
            released.set(name.key, value)
            if (use !== undefined) policies.set(name.key, use)
          }
        } catch (thrown) {
          // The vault took too long. Nothing was sent to the external server yet, so this is not a
          // timeout of the API.
          throw isStreamsError(thrown, 'UPSTREAM_TIMEOUT')
            ? new VaultError('the secrets were not released in time', { cause: thrown })
            : thrown
        } finally {
          keys.secretKey.fill(0)
        }
        if (released.size === 0) return next(call)
        scope.log.debug?.(`secrets released: ${[...released.keys()].join(', ')}`)
        const redactor = new Redactor(released.values())
        const log = redactor.log(scope.log)
        try {
          const reply = await next({ ...call, released, policies, scope: { ...scope, log } })
          const multiHeaders = redactor.headers(reply.multiHeaders)
          if (multiHeaders !== reply.multiHeaders)
            log.warn?.(`${operation}: headers of the answer repeat a secret and are redacted`)
          return { ...reply, multiHeaders }
        } catch (thrown) {
          throw redactor.error(thrown)
        } finally {
          redactor.wipe()
        }
      },
  }
}

/**
 * Gets one secret from the vault for a workflow that asks for the secret's value. From then on, the
 * workflow must protect the value. Rejects with the signal's reason if the signal aborts first.
 */
export async function readSecret(
  vault: SecretVault,
  name: SecretName,
  signal?: AbortSignal,
): Promise<string> {
  const keys = boxKeys()
  const request = { name, keys, ...(signal !== undefined && { signal }) }
  try {
    const { value, use = 'anywhere' } = await new SecretReader(vault).read(request)
    if (use === 'anywhere') return value
    throw new EnclaveError(
      `secret ${name.key} has a policy, and so is put into requests alone: no workflow gets its value`,
      { code: 'SECRET_POLICY', mayHaveBeenSent: false },
    )
  } finally {
    keys.secretKey.fill(0)
  }
}

/**
 * Rejects the secrets of other owners before the vault is asked. So the answer does not show
 * whether such a secret exists.
 */
function checkOwner({ owner, key }: SecretName, caller: string): void {
  if (owner !== caller)
    throw new VaultError(
      `secret ${key}: its owner ${owner} is not ${caller}, whom this request is made for`,
    )
}

/** How often a failed read is repeated because the vault has changed meanwhile. */
const MAX_CHANGES = 10

/** The value of a secret. Its policy is `use`, if it was stored with one. */
interface Released {
  readonly value: string
  readonly use?: SecretUse
}

type ReadRequest = Omit<ShareRequest, 'ciphertext'>

/**
 * Gets secrets from a vault. Remembers the ciphertexts that it has verified and the holders that
 * have failed.
 */
class SecretReader {
  readonly #vault: SecretVault
  readonly #readers = new WeakMap<PublicKey, (json: string) => Ciphertext>()
  readonly #failures: FailureTimes = new Map()

  constructor(vault: SecretVault) {
    this.#vault = vault
  }

  /** Gets one secret. The holders seal their shares to the keys of the request. */
  async read(request: ReadRequest): Promise<Released> {
    let now = await this.#current()
    for (let changes = 0; ; changes++) {
      try {
        return await this.#readFrom(now, request)
      } catch (thrown) {
        const later = request.signal?.aborted ? now : await this.#current()
        // If the vault has changed, the holders may have new shares, or the secret may have a new
        // version. So the read is repeated.
        if (later === now || changes === MAX_CHANGES) throw thrown
        now = later
      }
    }
  }

  async #current(): Promise<SecretVault> {
    return (await this.#vault.current?.()) ?? this.#vault
  }

  async #readFrom(now: SecretVault, request: ReadRequest): Promise<Released> {
    const { key } = request.name
    const ciphertext = this.#readCiphertext(now, request.name, await now.ciphertext(request.name))
    const asked = { ...request, ciphertext }
    const options = { threshold: now.threshold, crypto: nativeCrypto as WebCrypto }
    const shares = await gatherShares(now, asked, this.#failures)
    const bytes = await combine(ciphertext, shares, options).catch(async () => {
      // Either a holder lied or the stored message was changed. Verified shares show which.
      const verified = await gatherShares(now, { ...asked, suspects: shares }, this.#failures)
      return combine(ciphertext, verified, options)
    })
    try {
      const { value, use } = readUse(bytes)
      const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value)
      return { value: text, ...(use === undefined ? {} : { use }) }
    } catch (thrown) {
      const why = thrown instanceof VaultError ? thrown.message : 'its value is not valid UTF-8'
      throw new VaultError(`secret ${key}: ${why}`)
    } finally {
      bytes.fill(0)
    }
  }

  #readCiphertext(
    { publicKey }: SecretVault,
    { key, owner }: SecretName,
    json: string,
  ): Ciphertext {
    const read = this.#readers.get(publicKey) ?? createCiphertextReader(publicKey)
    this.#readers.set(publicKey, read)
    let ciphertext: Ciphertext
    try {
      ciphertext = read(json)
    } catch (cause) {
      throw new VaultError(`secret ${key}: its entry is not a ciphertext of this vault`, { cause })
    }
    if (Buffer.compare(ciphertext.label, ownerLabel(owner)) === 0) return ciphertext
    throw new VaultError(`secret ${key}: its ciphertext was not made for ${owner}`)
  }
}
