import { createHash } from 'node:crypto'
import { checkText, number, optional, type Rule, ValidationError } from 'sluice/core'
import { checkName, formatName, isUse } from 'sluice/internal'
import { type SecretName, type SecretUse, VaultError } from 'sluice/plugins/confidential-http'
import { formatPublicKey, type PublicKey, parsePublicKey } from 'sluice/tdh2'
import { checkFields, hexText, listOf, objectOf, parseFields } from './files.js'
import { isSigned, type Writer } from './identity.js'

/** One version of a secret. */
export interface SecretVersion extends SecretName {
  /** From 1 on; the highest of a secret is the one in use. */
  readonly version: number
  /** When it was put, in Unix milliseconds. */
  readonly putAt: number
  /** From then on it is not released, in Unix milliseconds. */
  readonly expiresAt?: number
  /**
   * Its policy, to be shown: what decides is the one that is encrypted with the value. Absent where
   * there is none, or an older version of this library has put it.
   */
  readonly policy?: SecretUse
  /** SHA-256 of its ciphertext, as hexadecimal digits. */
  readonly digest: string
}

/**
 * Where a holder that is a process of its own is asked, and its public key: 64 hexadecimal digits.
 */
export interface HolderAddress {
  /** The URL, `http:` or `https:`. */
  readonly url: string
  /** The public key. */
  readonly key: string
}

/** What a change was. It holds no value. */
export interface Act {
  /** What was done. */
  readonly type:
    | 'put'
    | 'restore'
    | 'remove'
    | 'reshare'
    | 'rotate'
    | 'settle'
    | 'take back'
    | 'recover'
  /** `OWNER/NAMESPACE/KEY` of the secret. */
  readonly secret?: string
  /** The version of the secret that is in use now. */
  readonly version?: number
  /** Of `recover`: the number of the change that the backup had. */
  readonly from?: number
}

/** The state of a vault. Each change makes the next one. */
export interface Manifest {
  /** How many changes there were. */
  readonly sequence: number
  /** The digests of the manifests before, the latest first: at most HISTORY. */
  readonly history: readonly string[]
  /**
   * The change that made it; undefined for the first, and where an older version of this library
   * has.
   */
  readonly act?: Act | undefined
  /** Which shares are in use: each resharing and each rotation makes another generation. */
  readonly generation: number
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  readonly publicKey: PublicKey
  /** The holders that are processes; undefined where all are in the directory. */
  readonly addresses?: readonly HolderAddress[] | undefined
  /**
   * The holders that were left out by a resharing, and have not been reached since: they still have
   * to delete their shares.
   */
  readonly dropped?: readonly HolderAddress[] | undefined
  /** True until every new holder goes by the generation: until then nobody deletes an old share. */
  readonly isUnsettled?: boolean | undefined
  /** For how long holders keep a share, in milliseconds; undefined without an end. */
  readonly shareLifetime?: number | undefined
  /** From then on holders delete their shares of the generation, in Unix milliseconds. */
  readonly sharesExpireAt?: number | undefined
  /** Sorted by name, the highest version of a secret first. */
  readonly secrets: readonly SecretVersion[]
}

/** A manifest that was read, with its digest. */
export interface SignedManifest extends Manifest {
  /** SHA-256 of its signed text, as hexadecimal digits. */
  readonly digest: string
  /** The text of its file. */
  readonly text: string
}

/** Who has seen one of so many manifests before can tell that this one descends from it. */
export const HISTORY = 64
/** The most holders a vault may have. */
export const MAX_HOLDERS = 31
/** The holders that are remembered to have been dropped. */
export const MAX_DROPPED = 62
/** The longest text of a manifest: some 12,000 versions of secrets. */
export const MAX_MANIFEST_BYTES = 4_194_304

/** Writes a manifest: JSON with the body, and the writer's signature of the body's JSON. */
export function signManifest(manifest: Manifest, writer: Writer): SignedManifest {
  const { publicKey, addresses, secrets, ...others } = manifest
  const body = {
    ...others,
    publicKey: hexOf(publicKey),
    addresses,
    secrets,
  }
  const signed = JSON.stringify(body)
  const text = JSON.stringify({ body, signature: writer.sign(signed) })
  if (Buffer.byteLength(text) > MAX_MANIFEST_BYTES)
    throw new VaultError('the vault has too many secrets')
  return { ...manifest, digest: digestOf(signed), text }
}

/** What stands before and behind the signed body. */
const BODY = '{"body":'
const SIGNATURE = /^,"signature":"([A-Za-z0-9+/]{86}==)"\}$/
const SIGNATURE_LENGTH = ',"signature":""}'.length + 88

type SignedFields = Omit<Manifest, 'publicKey'> & { readonly publicKey: string }

/** Reads a manifest that a writer has signed; `shown` names it in errors. */
export function readManifest(text: string, writer: string, shown: string): SignedManifest {
  // Nothing is parsed that the writer has not signed: anybody may send a manifest to a holder.
  const [, signature = ''] = SIGNATURE.exec(text.slice(-SIGNATURE_LENGTH)) ?? []
  if (!text.startsWith(BODY) || signature === '') throw new VaultError(`${shown} is not a manifest`)
  const signed = text.slice(BODY.length, -SIGNATURE_LENGTH)
  if (!isSigned(signed, signature, writer))
    throw new VaultError(`${shown} is not signed by the vault's writer`)
  const fields = parseFields(signed, shown) as unknown as SignedFields
  const publicKey = publicKeyOf(fields.publicKey)
  if (publicKey.hArray.length > MAX_HOLDERS)
    throw new VaultError(`${shown}: the key has more than ${MAX_HOLDERS} shares`)
  checkFields(shown, fields, rulesFor(publicKey, fields))
  return { ...fields, publicKey, digest: digestOf(signed), text }
}

/**
 * The rules of a manifest's fields: a writer of another version of this library may have signed
 * something else.
 */
const rulesFor = (
  { hArray }: PublicKey,
  { sequence }: SignedFields,
): Readonly<Record<string, Rule<unknown>>> => ({
  sequence: whole,
  history: listOf(hexText, HISTORY, Math.min(sequence - 1, HISTORY)),
  generation: whole,
  threshold: number({ min: 1, max: hArray.length, whole: true }),
  addresses: optional(listOf(address, hArray.length, hArray.length)),
  dropped: optional(listOf(address, MAX_DROPPED)),
  shareLifetime: optional(milliseconds),
  sharesExpireAt: optional(milliseconds),
  secrets: listOf(version, Number.MAX_SAFE_INTEGER),
})

const whole = number({ min: 1, whole: true })
const milliseconds = number({ min: 0 })
const address = objectOf({ url: checkText, key: hexText })
const versionFields = objectOf({
  version: whole,
  putAt: milliseconds,
  expiresAt: optional(milliseconds),
  policy: optional(checkShownPolicy),
  digest: hexText,
})

function version(field: string, value: unknown): object {
  checkName(versionFields(field, value) as SecretVersion)
  return value as object
}

function checkShownPolicy(field: string, value: unknown): unknown {
  if (!isUse(value)) throw new ValidationError(`${field} must be a policy`)
  return value
}

/** The published form of a public key: lower-case hexadecimal digits of its JSON text. */
export function hexOf(publicKey: PublicKey): string {
  return Buffer.from(formatPublicKey(publicKey)).toString('hex')
}

/**
 * True if the shares are the same. A change that was taken back leaves its number to the next
 * change, whose shares are others.
 */
export function hasSameShares(one: Manifest, other: Manifest): boolean {
  return hexOf(one.publicKey) === hexOf(other.publicKey)
}

let latest: { readonly hex: string; readonly key: PublicKey } | undefined

/** Most manifests have the key of the one before, whose points are prepared. */
function publicKeyOf(hex: string): PublicKey {
  if (latest?.hex !== hex) latest = { hex, key: parsePublicKey(Buffer.from(hex, 'hex').toString()) }
  return latest.key
}

/** SHA-256 of a text, as hexadecimal digits. */
export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** The most secrets of an owner. */
export const MAX_SECRETS = 100
/** How many versions of a secret stay: the one in use, and those before it. */
export const MAX_VERSIONS = 3

/**
 * The versions of a secret, the one in use first. Throws VaultError where there is no such secret.
 */
export function versionsOf(
  secrets: readonly SecretVersion[],
  name: SecretName,
): readonly [SecretVersion, ...SecretVersion[]] {
  const [first, ...others] = secrets.filter(each => isNamed(each, name))
  if (first === undefined) throw new VaultError(`key does not exist: ${formatName(name)}`)
  return [first, ...others]
}

/** The version in use of each secret. */
export function newestOf(secrets: readonly SecretVersion[]): readonly SecretVersion[] {
  return secrets.filter((each, at) => {
    const before = secrets[at - 1]
    return before === undefined || !isNamed(before, each)
  })
}

/**
 * The version in use of a secret. Throws VaultError where there is none, or it has expired
 * (`SECRET_EXPIRED`).
 */
export function usableOf(
  secrets: readonly SecretVersion[],
  name: SecretName,
  now: number = Date.now(),
): SecretVersion {
  const [newest] = versionsOf(secrets, name)
  const { version, expiresAt } = newest
  if (expiresAt !== undefined && expiresAt <= now)
    throw new VaultError(
      `${formatName(name)} expired at ${new Date(expiresAt).toISOString()}: put version ${version + 1}`,
      { code: 'SECRET_EXPIRED' },
    )
  return newest
}

/** Adds a version above those there are, and leaves out what are too many. */
export function addVersion(
  secrets: readonly SecretVersion[],
  added: Omit<SecretVersion, 'version'>,
): readonly SecretVersion[] {
  const before = secrets.filter(each => isNamed(each, added))
  if (before.length === 0) checkRoom(secrets, added.owner)
  const { owner, namespace, key, ...facts } = added
  const newest = { owner, namespace, key, version: (before[0]?.version ?? 0) + 1, ...facts }
  const others = secrets.filter(each => !isNamed(each, added))
  return sorted([...others, newest, ...before.slice(0, MAX_VERSIONS - 1)])
}

/** Leaves out every version of a secret. Throws VaultError where there is none. */
export function withoutSecret(
  secrets: readonly SecretVersion[],
  name: SecretName,
): readonly SecretVersion[] {
  versionsOf(secrets, name)
  return secrets.filter(each => !isNamed(each, name))
}

function checkRoom(secrets: readonly SecretVersion[], owner: string): void {
  const count = newestOf(secrets).filter(each => each.owner === owner).length
  if (count >= MAX_SECRETS)
    throw new ValidationError(
      `owner 0x${owner} has ${MAX_SECRETS} secrets already, which is all an owner may have`,
    )
}

function isNamed(one: SecretName, other: SecretName): boolean {
  return one.key === other.key && one.namespace === other.namespace && one.owner === other.owner
}

function sorted(secrets: readonly SecretVersion[]): readonly SecretVersion[] {
  const named = secrets.map(each => [formatName(each), each] as const)
  named.sort(([one, a], [other, b]) =>
    one === other ? b.version - a.version : one < other ? -1 : 1,
  )
  return named.map(([, each]) => each)
}
