import type { DataStreamsError } from 'sluice/core'
import type { SecretName, SecretRef, SecretUse } from 'sluice/plugins/confidential-http'
import type { PublicKey } from 'sluice/tdh2'
import type { HolderAddress } from './manifest.js'

/** A holder of a vault. It holds one share of the key. */
export interface VaultHolder {
  /** From 0 on. */
  readonly index: number
  /** The URL of a holder that is a process of its own. */
  readonly url?: string
  /**
   * The holder's decryption share of a stored secret, as JSON text sealed to `recipient`, an X25519
   * public key of 32 bytes. The holder reads the secret's ciphertext itself, and rejects one that
   * is not labelled with the owner's address.
   */
  release(name: SecretName, recipient: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>
}

/** A holder, as the vault itself uses it. */
export interface RespondingHolder extends VaultHolder {
  /** As `release`, for an encrypted response: its label is zeros, which no secret has. */
  releaseResponse(body: string, recipient: Uint8Array): Promise<Uint8Array>
}

/** A vault as it is between two changes. */
export interface VaultState {
  /** How many changes there were. */
  readonly sequence: number
  /** Which shares are in use: each resharing and each rotation makes another generation. */
  readonly generation: number
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  /** The key that secrets are encrypted with. */
  readonly publicKey: PublicKey
  /** The holders, each with a share of the key, by index. */
  readonly holders: readonly RespondingHolder[]
  /** The ciphertext of a secret's newest version. Rejects if there is none, or it has expired. */
  ciphertext(name: SecretName): Promise<string>
}

/** A file that should hold a secret, and does not. */
export interface DamagedSecret {
  /** Its path below the vault's directory. */
  readonly file: string
  /** The owner of its folder. */
  readonly owner: string
  /** The reason, with the name of the file. */
  readonly error: DataStreamsError
}

/** Options of a vault's `reshare`. */
export interface ReshareOptions {
  /** How many holders there will be, at most 31. @default as many as there are */
  readonly holders?: number
  /** How many of them will release a secret. @default as many as it takes now */
  readonly threshold?: number
  /**
   * The holders, where they are to be processes (`sluice vault holder`). @default those that the
   * vault has
   */
  readonly addresses?: readonly HolderAddress[]
  /**
   * Milliseconds after which holders that are processes delete their shares: reshare before that. 0
   * lets shares live on. @default as it is
   */
  readonly shareLifetime?: number
}

/** The result of a resharing or a rotation. */
export interface KeyChange {
  /** The generation of the shares that are in use now. */
  readonly generation: number
  /** The holders that did not deal, or lied, each with the reason. */
  readonly leftOut: readonly string[]
}

/** The result of a recovery. */
export interface Recovery {
  /** The number of the change that the vault is at now. */
  readonly sequence: number
  /** The holders that have not got it yet, each with the reason. */
  readonly late: readonly string[]
}

/** A secret, without its value. */
export interface SecretInfo extends SecretName {
  /** From 1 on; each `put` of the secret makes the next. */
  readonly version: number
  /** When it was put, in Unix milliseconds. */
  readonly putAt: number
  /** From then on it is not released, in Unix milliseconds. */
  readonly expiresAt?: number
  /**
   * Where it may go, as its writer has signed: enclaves go by what is encrypted with the value.
   * Absent where it was put without a policy, or by a version of this library that did not sign it.
   */
  readonly policy?: SecretUse
}

/** Options of a vault's `put`. */
export interface PutOptions {
  /** Where the secret may go: `{ hosts: ['api.example.com'] }`, or `'anywhere'`. */
  readonly policy: SecretUse
  /** From then on the secret is not released: a date, or Unix milliseconds. @default never */
  readonly expiresAt?: Date | number
}

/**
 * Secrets in a directory, encrypted with a key whose secret half is split: each holder holds a
 * share, and it takes a threshold of holders to release a secret. The members that say what it is
 * made of are those of its latest known state.
 */
export interface Vault {
  /** Absolute. */
  readonly directory: string
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  /** The holders, each with a share of the key, by index. */
  readonly holders: readonly VaultHolder[]
  /** Which shares are in use: each resharing and each rotation makes another generation. */
  readonly generation: number
  /** The owner of secrets put without one: an address, as 40 lower-case hexadecimal digits. */
  readonly owner: string
  /** The key that secrets are encrypted with. */
  readonly publicKey: PublicKey
  /** The published form of the public key: lower-case hexadecimal digits of its JSON text. */
  readonly publicKeyHex: string
  /**
   * The public key that the vault's manifests are signed with: 64 hexadecimal digits. Its holders
   * pin it.
   */
  readonly writerKey: string
  /**
   * The vault as it is now, whichever process has changed it: the same object until somebody does.
   */
  current(): Promise<VaultState>
  /**
   * Encrypts a secret and stores it as its newest version. A value is UTF-8 of at most 1022 bytes,
   * with its policy, which is encrypted with it, and signed in the vault's manifest for `list`.
   */
  put(name: SecretRef, value: string | Uint8Array, options: PutOptions): Promise<void>
  /** The versions of a secret that are stored, the one in use first; no value. */
  versions(name: SecretRef): Promise<readonly SecretInfo[]>
  /**
   * Makes an older version of a secret the newest one, and returns its number. It expires when the
   * older one does.
   */
  restore(name: SecretRef, version: number): Promise<number>
  /**
   * The newest versions of the secrets, sorted by name; with a filter, those of an owner or
   * namespace only. Of damaged ones, `listDamaged` has the reasons.
   */
  list(filter?: {
    readonly owner?: string
    readonly namespace?: string
  }): Promise<readonly SecretInfo[]>
  /**
   * The files that should hold a secret and don't, of an owner or of all: put the secret again, or
   * remove it.
   */
  listDamaged(filter?: { readonly owner?: string }): Promise<readonly DamagedSecret[]>
  /** Deletes every version of a secret. */
  remove(name: SecretRef): Promise<void>
  /** The ciphertext of a secret: JSON text that anybody may see. */
  ciphertext(name: SecretName): Promise<string>
  /**
   * Decrypts the body of a response that was encrypted with the vault's key, as its receiver does.
   * Holders reject secrets here by their label.
   */
  decryptResponse(body: Uint8Array | string): Promise<Uint8Array>
  /**
   * Gives the holders new shares of the same key: as many holders, and as high a threshold, as you
   * say. Old shares are useless.
   */
  reshare(options?: ReshareOptions): Promise<KeyChange>
  /**
   * Makes a new key, and encrypts the newest version of each secret with it. Older versions and
   * expired secrets are removed; responses that were encrypted with the old key can't be decrypted
   * any more.
   */
  rotate(): Promise<KeyChange>
  /**
   * Has a vault that was put back from a backup accepted by holders, enclaves and `rollbackState`
   * files that have seen a newer state: the next change gets a number beyond `after`, which is the
   * newest that any of them has seen. The error `ROLLBACK` names it.
   */
  recover(options: { readonly after: number }): Promise<Recovery>
}
