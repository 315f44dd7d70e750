import { isUtf8 } from 'node:buffer'
import { checkNumber, checkOptions, type OptionNames, ValidationError } from 'sluice/core'
import { checkName, checkUse, isBytes, withUse } from 'sluice/internal'
import {
  type SecretName,
  type SecretRef,
  type SecretUse,
  VaultError,
} from 'sluice/plugins/confidential-http'
import { encrypt, ownerLabel, type PublicKey } from 'sluice/tdh2'
import { getPublicSuffix } from 'tldts'
import { MAX_CIPHERTEXT_BYTES } from './secret-store.js'
import type { PutOptions, SecretInfo } from './vault.js'

// Checks of the names, values and policies that users give a vault, and the encryption of secrets.

/**
 * True if strangers may have hosts below this name, by the public suffix list. Such names belong to
 * registries (`co.uk`), or to services that give names to their customers (`github.io`). Also true
 * for a name if all its children are public suffixes (`kobe.jp`), and for an address, which has no
 * hosts below it.
 */
export function isPublicSuffix(name: string): boolean {
  const suffixOf = (host: string): string | null =>
    getPublicSuffix(host, { allowPrivateDomains: true, validateHostname: false })
  const suffix = suffixOf(name)
  const child = `any-name.${name}`
  return suffix === null || suffix === name || suffixOf(child) === child
}

/** The parts of a secret's name. */
export const nameParts: OptionNames<SecretRef> = { key: true, namespace: true, owner: true }
/** The fields of an entry of `list`, which is accepted wherever a name is. */
export const infoParts: OptionNames<SecretInfo> = {
  ...nameParts,
  version: true,
  putAt: true,
  expiresAt: true,
  policy: true,
}

/** The most bytes of a value with its policy. Its ciphertext then has MAX_CIPHERTEXT_BYTES. */
const MAX_VALUE_BYTES = 1022

/** Checks a name. Its owner defaults to the owner of the vault. */
export function readName(
  given: SecretRef,
  owner: string,
  parts: OptionNames<SecretRef> = infoParts,
): SecretName {
  const name = checkName(given, owner)
  checkOptions('name', given, parts)
  return name
}

/** Checks the expiry of a secret. Returns it in Unix milliseconds. */
export function readExpiry(expiresAt: PutOptions['expiresAt']): number | undefined {
  if (expiresAt === undefined) return undefined
  const time = checkNumber('expiresAt', Number(expiresAt), { min: 0 })
  if (time <= Date.now()) throw new ValidationError('expiresAt must be in the future')
  return time
}

/** Checks the policy of a secret: where it may be sent. */
export function readPolicy({ key }: SecretName, policy: SecretUse): SecretUse {
  if (policy === undefined)
    throw new ValidationError(
      `policy must say where ${key} may go: { hosts: ['api.example.com'] }, or 'anywhere'`,
    )
  return checkUse('policy', policy, isPublicSuffix)
}

/** The bytes to encrypt: a value with its policy. */
export function readValue(name: SecretName, value: unknown, use: SecretUse): Uint8Array {
  const bytes = withUse(use, bytesOf(name, value))
  if (bytes.byteLength > MAX_VALUE_BYTES)
    throw new ValidationError(
      `the value of ${name.key} and its policy must have at most ${MAX_VALUE_BYTES} bytes together, not ${bytes.byteLength}`,
    )
  return bytes
}

/** Encrypts a secret with the vault's key, for its owner. */
export async function encryptSecret(
  publicKey: PublicKey,
  { owner }: SecretName,
  value: Uint8Array,
): Promise<string> {
  const ciphertext = await encrypt(publicKey, value, { label: ownerLabel(owner) })
  if (Buffer.byteLength(ciphertext) > MAX_CIPHERTEXT_BYTES)
    throw new VaultError(`a ciphertext came out longer than ${MAX_CIPHERTEXT_BYTES} bytes`)
  return ciphertext
}

/** Copies the bytes of a value, and checks them. Error messages show only the size of a value. */
function bytesOf({ key }: SecretName, value: unknown): Uint8Array {
  if (typeof value !== 'string' && !isBytes(value))
    throw new ValidationError(`the value of ${key} must be a string or a Uint8Array`)
  const bytes = typeof value === 'string' ? Buffer.from(value) : Uint8Array.from(value)
  const isText = typeof value === 'string' ? !/\p{Surrogate}/u.test(value) : isUtf8(bytes)
  if (!isText) throw new ValidationError(`the value of ${key} must be well-formed Unicode text`)
  if (bytes.byteLength > MAX_VALUE_BYTES)
    throw new ValidationError(
      `the value of ${key} must have at most ${MAX_VALUE_BYTES} bytes, not ${bytes.byteLength}`,
    )
  return bytes
}
