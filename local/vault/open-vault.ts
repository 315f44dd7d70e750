import { isUtf8 } from 'node:buffer'
import { resolve } from 'node:path'
import { ValidationError } from '../../core/errors.js'
import { checkOptions, isBytes, type OptionNames } from '../../core/options.js'
import { encrypt, ownerLabel, type PublicKey } from '../../crypto/tdh2/index.js'
import { decryptResponse } from './decrypt-response.js'
import { VaultError } from './errors.js'
import { createVaultFolder } from './files.js'
import { hexOf, MANIFEST_FILE, readManifest } from './manifest.js'
import { checkShareFiles, createNode, NODES_FOLDER, type VaultNode } from './node.js'
import { createPermissions, type PermissionOptions, permissionNames } from './permissions.js'
import {
  checkName,
  checkNamespace,
  checkOwner,
  type SecretName,
  type SecretRef,
} from './secret-name.js'
import {
  createSecretStore,
  type DamagedSecret,
  MAX_CIPHERTEXT_BYTES,
  SECRETS_FOLDER,
} from './secret-store.js'

/**
 * Secrets in a directory, encrypted with a key whose secret half is split: each node holds a share, and it takes a
 * threshold of nodes to release a secret.
 */
export interface Vault {
  /** Absolute. */
  readonly directory: string
  /** How many nodes it takes to release a secret. */
  readonly threshold: number
  /** The nodes, each with a share of the key, by index. */
  readonly nodes: readonly VaultNode[]
  /** The owner of secrets put without one: an address, as 40 lower-case hexadecimal digits. */
  readonly owner: string
  /** The key that secrets are encrypted with. */
  readonly publicKey: PublicKey
  /** The published form of the public key: lower-case hexadecimal digits of its JSON text. */
  readonly publicKeyHex: string
  /** Encrypts a secret and stores it in place of an older one. A value is UTF-8 of at most 1022 bytes. */
  put(name: SecretRef, value: string | Uint8Array): Promise<void>
  /**
   * The names of the secrets, sorted; with a filter, those of an owner or namespace only. Damaged ones are not among
   * them: `listDamaged` names those.
   */
  list(filter?: {
    readonly owner?: string
    readonly namespace?: string
  }): Promise<readonly SecretName[]>
  /** The files that should hold a secret and don't, of an owner or of all: put the secret again, or delete the file. */
  listDamaged(filter?: { readonly owner?: string }): Promise<readonly DamagedSecret[]>
  /** Deletes a secret. */
  remove(name: SecretRef): Promise<void>
  /** The ciphertext of a secret: JSON text that anybody may see. */
  ciphertext(name: SecretName): Promise<string>
  /**
   * Decrypts the body of a response that was encrypted with the vault's key, as its receiver does. Nodes reject secrets
   * here by their label.
   */
  decryptResponse(body: Uint8Array | string): Promise<Uint8Array>
}

/** The options of `openVault`. */
export interface OpenVaultOptions extends PermissionOptions {}

const nameParts: OptionNames<SecretRef> = {
  key: true,
  namespace: true,
  owner: true,
}

/** The length of a value whose ciphertext has MAX_CIPHERTEXT_BYTES. */
const MAX_VALUE_BYTES = 1022

/**
 * Opens a vault. A missing or wrong share is found only when its node is asked, as the other nodes may suffice. Rejects
 * with VaultError (`PERMISSIONS`) if others may write in its folders, or read or write the share of any node.
 *
 * @example
 * const vault = await openVault('./vault')
 * await vault.put({ key: 'API_KEY' }, value)
 */
export async function openVault(directory: string, options: OpenVaultOptions = {}): Promise<Vault> {
  const path = checkDirectory(directory)
  const permissions = createPermissions(checkOptions('openVault', options, permissionNames))
  const folder = createVaultFolder(path, permissions)
  const manifest = await readManifest(folder)
  if (manifest === undefined)
    throw new VaultError(`${path} is not a vault: it has no ${MANIFEST_FILE}`)
  permissions.checkFolder(path, [NODES_FOLDER, SECRETS_FOLDER])
  const { threshold, owner, publicKey } = manifest
  await checkShareFiles(folder, publicKey.hArray.length)
  const store = createSecretStore(folder)
  const nodes = publicKey.hArray.map((_, index) => createNode(index, folder, publicKey, store))

  function nameOf(given: SecretRef): SecretName {
    const name = checkName(given, owner)
    checkOptions('name', given, nameParts)
    return name
  }

  return {
    directory: path,
    threshold,
    nodes: nodes.map(({ index, release }) => ({ index, release })),
    owner,
    publicKey,
    publicKeyHex: hexOf(publicKey),
    async put(given, value) {
      const name = nameOf(given)
      const label = ownerLabel(name.owner)
      const ciphertext = await encrypt(publicKey, bytesOf(name, value), { label })
      if (Buffer.byteLength(ciphertext) > MAX_CIPHERTEXT_BYTES)
        throw new VaultError(`a ciphertext came out longer than ${MAX_CIPHERTEXT_BYTES} bytes`)
      await store.write(name, ciphertext)
    },
    async list(given) {
      const filter = checkOptions('list', given, { owner: true, namespace: true })
      const wanted = filter.namespace === undefined ? undefined : checkNamespace(filter.namespace)
      const { names } = await store.list(optionalOwner(filter.owner))
      return names.filter(({ namespace }) => wanted === undefined || namespace === wanted)
    },
    async listDamaged(given) {
      const filter = checkOptions('listDamaged', given, { owner: true })
      return (await store.list(optionalOwner(filter.owner))).damaged
    },
    async remove(given) {
      await store.remove(nameOf(given))
    },
    async ciphertext(given) {
      return store.read(checkName(given))
    },
    decryptResponse(body) {
      return decryptResponse(manifest, nodes, body)
    },
  }
}

function optionalOwner(owner: string | undefined): string | undefined {
  return owner === undefined ? undefined : checkOwner('owner', owner)
}

/** The absolute path of a directory. */
export function checkDirectory(directory: unknown): string {
  if (typeof directory !== 'string' || directory === '')
    throw new ValidationError('directory must be a path')
  return resolve(directory)
}

/** A copy of a value's bytes. Error messages show only the size of a value. */
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
