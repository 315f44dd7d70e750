import { createHash } from 'node:crypto'
import { checkText, number, optional, type Rule, ValidationError } from 'sluice/core'
import { checkName, formatName, isUse } from 'sluice/internal'
import { type SecretName, type SecretUse, VaultError } from 'sluice/plugins/confidential-http'
import { formatPublicKey, type PublicKey, parsePublicKey } from 'sluice/tdh2'
import { checkFields, hexText, listOf, objectOf, parseFields } from './files.js'
import { isSigned, type Writer } from './identity.js'

/** One version of a secret. */
export interface SecretVersion extends SecretName {
  /** From 1 on. The highest version of a secret is the one in use. */
  readonly version: number
  /** When this version was put, in Unix milliseconds. */
  readonly putAt: number
  /** The secret is not released from this time on, in Unix milliseconds. */
  readonly expiresAt?: number
  /**
   * The secret's policy, for display only: the policy that is encrypted with the value decides.
   * Absent if the secret has no policy, or if an older version of this library has put it.
   */
  readonly policy?: SecretUse
  /** SHA-256 of the version's ciphertext, as hexadecimal digits. */
  readonly digest: string
}

/**
 * The address of a holder that is a separate process, and its public key of 64 hexadecimal digits.
 */
export interface HolderAddress {
  /** The URL, `http:` or `https:`. */
  readonly url: string
  /** The public key. */
  readonly key: string
}

/** A notice as it is sent to a holder: its text and the writer's signature. */
export interface SignedNotice {
  readonly notice: string
  readonly signature: string
}

/** A holder that the vault has dropped. */
export interface DroppedHolder extends HolderAddress {
  /** Tells the holder that it was dropped. Undefined until no process can take the change back. */
  readonly notice?: SignedNotice
}

/** A record of one change. It contains no secret value. */
export interface Act {
  /** The kind of change. */
  readonly type:
    | 'put'
    | 'restore'
    | 'remove'
    | 'reshare'
    | 'rotate'
    | 'settle'
    | 'take back'
    | 'recover'
    | 'revoke'
  /** `OWNER/NAMESPACE/KEY` of the secret. */
  readonly secret?: string
  /** The version of the secret that is in use now. */
  readonly version?: number
  /** For `recover` only: the number of the change that the backup had. */
  readonly from?: number
  /** For `revoke` only: the public key that is revoked. */
  readonly revoked?: string
}

/** The state of a vault. Each change makes the next one. */
export interface Manifest {
  /** How many changes there have been. */
  readonly sequence: number
  /** The digests of the previous manifests, the latest first: at most HISTORY. */
  readonly history: readonly string[]
  /**
   * The change that made this state. Undefined for the first state, or if an older version of this
   * library made the change.
   */
  readonly act?: Act | undefined
  /** The number of the shares in use. Each resharing and each rotation makes another generation. */
  readonly generation: number
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  readonly publicKey: PublicKey
  /** The holders that are separate processes; undefined if all holders are in the directory. */
  readonly addresses?: readonly HolderAddress[] | undefined
  /**
   * The holders that a resharing has dropped, and that have not been reached since. They still have
   * to delete their shares.
   */
  readonly dropped?: readonly DroppedHolder[] | undefined
  /**
   * The public keys that no holder answers or deals to any more, sorted. Their count is the number
   * of the trust: a key that was revoked stays revoked.
   */
  readonly revoked?: readonly string[] | undefined
  /** True until every new holder uses the generation. Until then nobody deletes an old share. */
  readonly isUnsettled?: boolean | undefined
  /** For how long holders keep a share, in milliseconds; undefined if shares never expire. */
  readonly shareLifetime?: number | undefined
  /** Holders delete their shares of the generation at this time, in Unix milliseconds. */
  readonly sharesExpireAt?: number | undefined
  /** Sorted by name, the highest version of a secret first. */
  readonly secrets: readonly SecretVersion[]
}

/** A manifest that was read or signed, with its digest. */
export interface SignedManifest extends Manifest {
  /** SHA-256 of its signed text, as hexadecimal digits. */
  readonly digest: string
  /** The text of its file. */
  readonly text: string
}

/**
 * The most digests in a history. A process that has seen one of that many earlier manifests can
 * tell whether this one descends from it.
 */
export const HISTORY = 64
/** The most holders that a vault may have. */
export const MAX_HOLDERS = 31
/** The most dropped holders that a manifest remembers. */
export const MAX_DROPPED = 62
/** The most keys that a vault may revoke. */
export const MAX_REVOKED = 1000
/** The most bytes of a manifest. About 12,000 versions of secrets fit. */
export const MAX_MANIFEST_BYTES = 4_194_304

/**
 * Signs a manifest. Its text is JSON with the body, and the writer's signature of the body's JSON.
 */
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

/** The text before the signed body, and the pattern and length of the text after it. */
const BODY = '{"body":'
const SIGNATURE = /^,"signature":"([A-Za-z0-9+/]{86}==)"\}$/
const SIGNATURE_LENGTH = ',"signature":""}'.length + 88

type SignedFields = Omit<Manifest, 'publicKey'> & { readonly publicKey: string }

/** Reads a manifest that a writer has signed; `shown` names it in errors. */
export function readManifest(text: string, writer: string, shown: string): SignedManifest {
  // Only signed text is parsed, because anybody may send a manifest to a holder.
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
 * The rules of a manifest's fields. They are checked although the manifest is signed: the writer
 * may use another version of this library.
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
  dropped: optional(listOf(droppedHolder, MAX_DROPPED)),
  revoked: optional(listOf(hexText, MAX_REVOKED)),
  shareLifetime: optional(milliseconds),
  sharesExpireAt: optional(milliseconds),
  secrets: listOf(version, Number.MAX_SAFE_INTEGER),
})

const whole = number({ min: 1, whole: true })
const milliseconds = number({ min: 0 })
const addressRules = { url: checkText, key: hexText }
const address = objectOf(addressRules)
const notice = objectOf({ notice: checkText, signature: checkText })
const droppedHolder = objectOf({ ...addressRules, notice: optional(notice) })
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
 * True if the shares are the same. The generation number is not compared: after a change is taken
 * back, the next change reuses its number for other shares.
 */
export function hasSameShares(one: Manifest, other: Manifest): boolean {
  return hexOf(one.publicKey) === hexOf(other.publicKey)
}

/** What a manifest says about keys that are no longer trusted, in short. */
export interface Trust {
  /** How many keys are revoked. */
  readonly number: number
  /** Tells apart two trusts of the same number. */
  readonly digest: string
}

/** The trust of a manifest; of a holder without a manifest, that of a new vault. */
export function trustOf({ revoked = [] }: Pick<Manifest, 'revoked'> = {}): Trust {
  return { number: revoked.length, digest: digestOf(revoked.join(' ')) }
}

let latest: { readonly hex: string; readonly key: PublicKey } | undefined

/**
 * Parses a public key. Most manifests have the same key as the previous one, so the last key is
 * kept with its prepared points.
 */
function publicKeyOf(hex: string): PublicKey {
  if (latest?.hex !== hex) latest = { hex, key: parsePublicKey(Buffer.from(hex, 'hex').toString()) }
  return latest.key
}

/** SHA-256 of a text, as hexadecimal digits. */
export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** The most secrets that an owner may have. */
export const MAX_SECRETS = 100
/** How many versions of a secret are kept: the version in use, and those before it. */
export const MAX_VERSIONS = 3

/** The versions of a secret, the one in use first. Throws VaultError if there is no such secret. */
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
 * The version in use of a secret. Throws VaultError if there is no such secret, or if it has
 * expired (`SECRET_EXPIRED`).
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

/** Adds a version above the existing ones, and drops versions beyond `MAX_VERSIONS`. */
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

/** Drops every version of a secret. Throws VaultError if there is no such secret. */
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
