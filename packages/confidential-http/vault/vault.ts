import type { DataStreamsError } from 'sluice/core'
import type { SecretName, SecretRef, SecretUse } from 'sluice/plugins/confidential-http'
import type { PublicKey } from 'sluice/tdh2'
import type { HolderAddress } from './manifest.js'

/** A holder of a vault. It holds one share of the key. */
export interface VaultHolder {
  /** The number of the holder, from 0 on. */
  readonly index: number
  /** The URL of a holder that is a separate process. */
  readonly url?: string
  /**
   * Returns the holder's decryption share of a stored secret, as JSON text sealed to `recipient`,
   * an X25519 public key of 32 bytes. The holder checks the secret's ciphertext itself, and rejects
   * a ciphertext that is not labelled with the owner's address.
   */
  release(name: SecretName, recipient: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>
}

/** A holder, as the vault itself uses it. */
export interface RespondingHolder extends VaultHolder {
  /** Like `release`, for an encrypted response. Its label is all zeros, which no secret has. */
  releaseResponse(body: string, recipient: Uint8Array): Promise<Uint8Array>
}

/** The state of a vault between two changes. */
export interface VaultState {
  /** How many changes there have been. */
  readonly sequence: number
  /** The number of the shares in use. Each resharing and each rotation makes another generation. */
  readonly generation: number
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  /** The key that secrets are encrypted with. */
  readonly publicKey: PublicKey
  /** The holders, each with a share of the key, by index. */
  readonly holders: readonly RespondingHolder[]
  /**
   * The ciphertext of a secret's newest version. Rejects if there is no such secret, or if it has
   * expired.
   */
  ciphertext(name: SecretName): Promise<string>
}

/** A file that should contain a secret, but does not. */
export interface DamagedSecret {
  /** The path of the file below the vault's directory. */
  readonly file: string
  /** The owner of the secret. */
  readonly owner: string
  /** The reason, with the name of the file. */
  readonly error: DataStreamsError
}

/** Options of a vault's `reshare`. */
export interface ReshareOptions {
  /** How many holders there will be, at most 31. @default as many as there are */
  readonly holders?: number
  /** How many of the new holders it takes to release a secret. @default as many as it takes now */
  readonly threshold?: number
  /**
   * The new holders, if they are to be separate processes (`sluice vault holder`).
   * @default those that the vault has
   */
  readonly addresses?: readonly HolderAddress[]
  /**
   * Milliseconds after which holders that are separate processes delete their shares. Reshare
   * before that. With 0, shares never expire.
   * @default as it is
   */
  readonly shareLifetime?: number
}

/** The result of a resharing or a rotation. */
export interface KeyChange {
  /** The generation of the shares that are in use now. */
  readonly generation: number
  /**
   * The holders that were left out because they did not deal or lied, and new holders that could
   * not be reached. Each entry has the reason.
   */
  readonly leftOut: readonly string[]
}

/** The result of a recovery. */
export interface Recovery {
  /** The number of the change that the vault is at now. */
  readonly sequence: number
  /** The holders that have not received this change yet, each with the reason. */
  readonly late: readonly string[]
}

/** The result of a revocation. */
export interface Revocation {
  /** The number of the trust: how many keys are revoked. */
  readonly trust: number
  /** The holders that have not been told yet, each with the reason. */
  readonly late: readonly string[]
}

/** What a look at a holder found. */
export interface HolderStatus {
  /** The number of the holder, from 0 on. */
  readonly index: number
  /** The URL of a holder that is a separate process. */
  readonly url?: string
  /** The number of the holder's trust; undefined if the holder has not answered. */
  readonly trust?: number
  /**
   * Whether that is the trust of this vault. With `behind`, the holder had not been told of a
   * revocation. With `ahead`, it was told of one that this vault does not have.
   */
  readonly compared?: 'same' | 'behind' | 'ahead'
  /** Why the holder can't release its part of a secret; undefined if it can. */
  readonly problem?: string
}

/** The trust of a vault, and of each of its holders. */
export interface TrustStatus {
  /** The number of the vault's trust: how many keys are revoked. */
  readonly trust: number
  /** The revoked public keys, sorted. */
  readonly revoked: readonly string[]
  readonly holders: readonly HolderStatus[]
}

/** A secret, without its value. */
export interface SecretInfo extends SecretName {
  /** From 1 on. Each `put` or `restore` of the secret makes the next version. */
  readonly version: number
  /** When this version was put, in Unix milliseconds. */
  readonly putAt: number
  /** The secret is not released from this time on, in Unix milliseconds. */
  readonly expiresAt?: number
  /**
   * Where the secret may be sent, as its writer has signed. Enclaves use the policy that is
   * encrypted with the value. Absent if the secret was put without a policy, or by a version of
   * this library that did not sign it.
   */
  readonly policy?: SecretUse
}

/** Options of a vault's `put`. */
export interface PutOptions {
  /** Where the secret may be sent: `{ hosts: ['api.example.com'] }`, or `'anywhere'`. */
  readonly policy: SecretUse
  /** The secret is not released from this time on: a date, or Unix milliseconds. @default never */
  readonly expiresAt?: Date | number
}

/**
 * Secrets in a directory, encrypted with a key whose secret half is split. Each holder has one
 * share, and it takes a threshold of holders to release a secret. `threshold`, `holders`,
 * `generation` and the public key are those of the latest known state.
 */
export interface Vault {
  /** The absolute path of the vault's directory. */
  readonly directory: string
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  /** The holders, each with a share of the key, by index. */
  readonly holders: readonly VaultHolder[]
  /** The number of the shares in use. Each resharing and each rotation makes another generation. */
  readonly generation: number
  /**
   * The owner of secrets that are put without an owner: an address, as 40 lower-case hexadecimal
   * digits.
   */
  readonly owner: string
  /** The key that secrets are encrypted with. */
  readonly publicKey: PublicKey
  /** The published form of the public key: lower-case hexadecimal digits of its JSON text. */
  readonly publicKeyHex: string
  /**
   * The public key that verifies the vault's manifests: 64 hexadecimal digits. The holders pin it.
   */
  readonly writerKey: string
  /**
   * The current state of the vault, also if another process has changed it. Returns the same object
   * until the vault changes.
   */
  current(): Promise<VaultState>
  /**
   * Encrypts a secret and stores it as its newest version. The value is UTF-8, and has at most 1022
   * bytes together with its policy. The policy is encrypted with the value. It is also signed in
   * the vault's manifest, for `list`.
   */
  put(name: SecretRef, value: string | Uint8Array, options: PutOptions): Promise<void>
  /** The stored versions of a secret, without values. The version in use comes first. */
  versions(name: SecretRef): Promise<readonly SecretInfo[]>
  /**
   * Makes an older version of a secret the newest one, and returns the new version number. The new
   * version expires when the older one does.
   */
  restore(name: SecretRef, version: number): Promise<number>
  /**
   * The newest versions of the secrets, sorted by name. With a filter, only those of an owner or
   * namespace. `listDamaged` has the reasons for damaged secrets.
   */
  list(filter?: {
    readonly owner?: string
    readonly namespace?: string
  }): Promise<readonly SecretInfo[]>
  /**
   * The files that should contain a secret but don't, of one owner or of all. To repair one, put
   * the secret again or remove it.
   */
  listDamaged(filter?: { readonly owner?: string }): Promise<readonly DamagedSecret[]>
  /** Deletes every version of a secret. */
  remove(name: SecretRef): Promise<void>
  /** The ciphertext of a secret: JSON text that anybody may see. */
  ciphertext(name: SecretName): Promise<string>
  /**
   * Decrypts the body of a response that was encrypted with the vault's key, as the receiver of the
   * response does. Holders reject secrets here by their label.
   */
  decryptResponse(body: Uint8Array | string): Promise<Uint8Array>
  /**
   * Gives the holders new shares of the same key. The options set the number of holders and the
   * threshold. Old shares become useless.
   */
  reshare(options?: ReshareOptions): Promise<KeyChange>
  /**
   * Makes a new key, and encrypts the newest version of each secret with it. Older versions and
   * expired secrets are removed. Responses that were encrypted with the old key can no longer be
   * decrypted.
   */
  rotate(): Promise<KeyChange>
  /**
   * Makes holders, enclaves and `rollbackState` files accept a vault that was restored from a
   * backup, although they have seen a newer state. `after` is the number of the newest change that
   * any of them has seen; the error `ROLLBACK` names it. The next change gets a number beyond
   * `after`.
   */
  recover(options: { readonly after: number }): Promise<Recovery>
  /**
   * Revokes the public key of an enclave or of a former holder, for good. No holder that was told
   * answers this key or deals to it, whatever its `holder.json` says.
   */
  revoke(key: string): Promise<Revocation>
  /**
   * Asks each holder whether it can release its part of a secret, and for its trust. A holder that
   * is behind is told of the revocations that it lacks.
   */
  status(): Promise<TrustStatus>
}
