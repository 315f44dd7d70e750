import { isUtf8 } from 'node:buffer'
import {
  checkNumber,
  checkOptions,
  type DataStreamsError,
  isStreamsError,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import { checkName, checkNamespace, checkOwner, checkUse, isBytes, withUse } from 'sluice/internal'
import {
  type SecretName,
  type SecretRef,
  type SecretUse,
  VaultError,
} from 'sluice/plugins/confidential-http'
import { encrypt, ownerLabel, type PublicKey } from 'sluice/tdh2'
import type { Act, SecretVersion, SignedManifest } from './manifest.js'
import type { Change } from './manifest-log.js'
import { isPublicSuffix } from './public-suffix.js'
import {
  type DamagedSecret,
  fileOfVersion,
  MAX_CIPHERTEXT_BYTES,
  type SecretStore,
} from './secret-store.js'
import type { PutOptions, SecretInfo, Vault } from './vault.js'
import { addVersion, newestOf, versionsOf, withoutSecret } from './versions.js'

const nameParts: OptionNames<SecretRef> = { key: true, namespace: true, owner: true }
/** What `list` returns is a name too. */
const infoParts: OptionNames<SecretInfo> = {
  ...nameParts,
  version: true,
  putAt: true,
  expiresAt: true,
  policy: true,
}

const putNames: OptionNames<PutOptions> = { policy: true, expiresAt: true }

/** The length of a value whose ciphertext has MAX_CIPHERTEXT_BYTES. */
const MAX_VALUE_BYTES = 1022

/** What the secrets of a vault are read from and written to. */
export interface SecretsOf {
  readonly owner: string
  readonly store: SecretStore
  head(): Promise<SignedManifest>
  /** Makes the next state of the vault, and removes the files that it no longer names. */
  change(make: (base: SignedManifest) => Change | Promise<Change>): Promise<SignedManifest>
}

/** The members of a vault that are about its secrets. */
export function createSecrets({
  owner,
  store,
  head,
  change,
}: SecretsOf): Pick<Vault, 'put' | 'versions' | 'restore' | 'list' | 'listDamaged' | 'remove'> {
  function nameOf(given: SecretRef, parts: OptionNames<SecretRef> = infoParts): SecretName {
    const name = checkName(given, owner)
    checkOptions('name', given, parts)
    return name
  }

  return {
    async put(given, value, putOptions) {
      // Nobody must believe that an expiry among the parts of a name counts.
      const name = nameOf(given, nameParts)
      const { policy, expiresAt: expiry } = checkOptions('put', putOptions, putNames)
      const use = checkPolicy(name, policy)
      const bytes = addPolicy(name, bytesOf(name, value), use)
      const expiresAt = checkExpiry(expiry)
      let made: { readonly publicKey: PublicKey; readonly digest: string } | undefined
      await change(async function add({ publicKey, secrets }) {
        const putAt = Date.now()
        const until = expiresAt === undefined ? {} : { expiresAt }
        const facts = { ...name, putAt, ...until, policy: use }
        // Before the file is written: there may be no room.
        addVersion(secrets, { ...facts, digest: '' })
        // The key may have been rotated since the last try.
        if (made?.publicKey !== publicKey)
          made = { publicKey, digest: await store.write(name, await seal(publicKey, name, bytes)) }
        const next = addVersion(secrets, { ...facts, digest: made.digest })
        return { secrets: next, act: actOf('put', name, next) }
      })
    },
    async versions(given) {
      const name = nameOf(given)
      return versionsOf((await head()).secrets, name).map(toInfo)
    },
    async restore(given, version) {
      const name = nameOf(given)
      const { secrets } = await change(base => {
        const found = versionsOf(base.secrets, name).find(each => each.version === version)
        if (found === undefined)
          throw new VaultError(`there is no version ${version} of ${name.key}`)
        const { version: _, ...facts } = found
        const next = addVersion(base.secrets, { ...facts, putAt: Date.now() })
        return { secrets: next, act: actOf('restore', name, next) }
      })
      return versionsOf(secrets, name)[0].version
    },
    async list(given) {
      const filter = checkOptions('list', given, { owner: true, namespace: true })
      const wanted = filter.namespace === undefined ? undefined : checkNamespace(filter.namespace)
      const ofOwner = optionalOwner(filter.owner)
      return newestOf((await head()).secrets)
        .filter(each => ofOwner === undefined || each.owner === ofOwner)
        .filter(({ namespace }) => wanted === undefined || namespace === wanted)
        .map(toInfo)
    },
    async listDamaged(given) {
      const filter = checkOptions('listDamaged', given, { owner: true })
      const ofOwner = optionalOwner(filter.owner)
      const { secrets } = await head()
      const damaged: DamagedSecret[] = []
      for (const version of newestOf(secrets)) {
        if (ofOwner !== undefined && version.owner !== ofOwner) continue
        const error = await store.read(version).then(() => undefined, asDamage)
        if (error === undefined) continue
        damaged.push({ file: fileOfVersion(version), owner: version.owner, error })
      }
      return damaged
    },
    async remove(given) {
      const name = nameOf(given)
      await change(({ secrets }) => ({
        secrets: withoutSecret(secrets, name),
        act: { type: 'remove', secret: pathOf(name) },
      }))
    },
  }
}

const pathOf = ({ owner, namespace, key }: SecretName): string => `${owner}/${namespace}/${key}`

function actOf(type: 'put' | 'restore', name: SecretName, secrets: readonly SecretVersion[]): Act {
  return { type, secret: pathOf(name), version: versionsOf(secrets, name)[0].version }
}

function toInfo({ digest: _, ...info }: SecretVersion): SecretInfo {
  return info
}

async function seal(publicKey: PublicKey, { owner }: SecretName, value: Uint8Array) {
  const ciphertext = await encrypt(publicKey, value, { label: ownerLabel(owner) })
  if (Buffer.byteLength(ciphertext) > MAX_CIPHERTEXT_BYTES)
    throw new VaultError(`a ciphertext came out longer than ${MAX_CIPHERTEXT_BYTES} bytes`)
  return ciphertext
}

function asDamage(error: unknown): DataStreamsError {
  if (isStreamsError(error)) return error
  throw error
}

function checkExpiry(expiresAt: PutOptions['expiresAt']): number | undefined {
  if (expiresAt === undefined) return undefined
  const time = checkNumber('expiresAt', Number(expiresAt), { min: 0 })
  if (time <= Date.now()) throw new ValidationError('expiresAt must be in the future')
  return time
}

function checkPolicy({ key }: SecretName, policy: SecretUse): SecretUse {
  if (policy === undefined)
    throw new ValidationError(
      `policy must say where ${key} may go: { hosts: ['api.example.com'] }, or 'anywhere'`,
    )
  return checkUse('policy', policy, isPublicSuffix)
}

/** A value with its policy. */
function addPolicy({ key }: SecretName, value: Uint8Array, use: SecretUse): Uint8Array {
  const bytes = withUse(use, value)
  if (bytes.byteLength > MAX_VALUE_BYTES)
    throw new ValidationError(
      `the value of ${key} and its policy must have at most ${MAX_VALUE_BYTES} bytes together, not ${bytes.byteLength}`,
    )
  return bytes
}

function optionalOwner(owner: string | undefined): string | undefined {
  return owner === undefined ? undefined : checkOwner('owner', owner)
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
