import { randomBytes } from 'node:crypto'
import { ValidationError } from '../../core/errors.js'

/** The full name of a secret. */
export interface SecretName {
  /** An address, as 40 hexadecimal digits. */
  readonly owner: string
  /** A group of names, 1 to 64 bytes: `main` unless another is given. */
  readonly namespace: string
  /** The name of the secret, 1 to 64 bytes. */
  readonly key: string
}

/** The name of a secret; the namespace defaults to main, the owner to that of the vault. */
export interface SecretRef {
  /** The name of the secret, 1 to 64 bytes. */
  readonly key: string
  /** A group of names, 1 to 64 bytes. @default 'main' */
  readonly namespace?: string
  /** An address: 40 hexadecimal digits of either case, with or without 0x. */
  readonly owner?: string
}

const MAX_LENGTH = 64

/** The full name of a secret in its normal form. */
export function checkName(name: SecretRef, defaultOwner?: string): SecretName {
  if (typeof name !== 'object' || name === null)
    throw new ValidationError('name must be an object with key, namespace and owner')
  return {
    owner: checkOwner('owner', name.owner ?? defaultOwner),
    namespace: checkNamespace(name.namespace),
    key: checkWord('key', name.key),
  }
}

/** A namespace; main if none or an empty one is given. */
export function checkNamespace(namespace: string | undefined): string {
  return namespace === undefined || namespace === '' ? 'main' : checkWord('namespace', namespace)
}

/** An address as 40 lower-case hexadecimal digits. */
export function checkOwner(field: string, owner: unknown): string {
  const [, digits] = /^(?:0x)?([0-9a-f]{40})$/i.exec(typeof owner === 'string' ? owner : '') ?? []
  if (digits === undefined)
    throw new ValidationError(`${field} must be an address: 40 hexadecimal digits`)
  // The label of this address is the one of encrypted responses, which anybody may have decrypted.
  if (/^0+$/.test(digits)) throw new ValidationError(`${field} must not be the zero address`)
  return digits.toLowerCase()
}

/** A random address, without a key. */
export function randomOwner(): string {
  return randomBytes(20).toString('hex')
}

function checkWord(field: string, word: unknown): string {
  if (typeof word !== 'string' || word === '')
    throw new ValidationError(`${field} must be a string that is not empty`)
  if (!/^\w+$/.test(word))
    throw new ValidationError(`${field} must only hold letters of ASCII, digits and _`)
  if (word.length > MAX_LENGTH)
    throw new ValidationError(`${field} must have at most ${MAX_LENGTH} bytes, not ${word.length}`)
  return word
}

/** The name of a secret in messages. */
export function formatName({ owner, namespace, key }: SecretName): string {
  return `0x${owner}::${namespace}::${key}`
}

/**
 * The file name of a key or namespace, which differs from others in more than case and is not reserved on any system.
 * Names have no '-', so it marks the changed characters.
 */
export function fileNameOf(word: string): string {
  const lower = word.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)
  return /^(con|prn|aux|nul|com\d|lpt\d)$/.test(lower) ? `${lower}-` : lower
}
