import { createHash } from 'node:crypto'
import { checkName, isUse } from 'sluice/internal'
import { type SecretName, type SecretUse, VaultError } from 'sluice/plugins/confidential-http'
import { formatPublicKey, type PublicKey, parsePublicKey } from 'sluice/tdh2'
import { isSigned, type Writer } from './writer.js'

/** One version of a secret. */
export interface SecretVersion extends SecretName {
  /** From 1 on; the highest of a secret is the one in use. */
  readonly version: number
  /** When it was put, in Unix milliseconds. */
  readonly putAt: number
  /** From then on it is not released, in Unix milliseconds. */
  readonly expiresAt?: number
  /**
   * Its policy, to be shown: what decides is the one that is encrypted with the value. Absent where there is none, or an older version
   * of this library has put it.
   */
  readonly policy?: SecretUse
  /** SHA-256 of its ciphertext, as hexadecimal digits. */
  readonly digest: string
}

/** Where a holder that is a process of its own is asked, and its public key: 64 hexadecimal digits. */
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
  /** The change that made it; undefined for the first, and where an older version of this library has. */
  readonly act?: Act | undefined
  /** Which shares are in use: each resharing and each rotation makes another generation. */
  readonly generation: number
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  readonly publicKey: PublicKey
  /** The holders that are processes; undefined where all are in the directory. */
  readonly addresses?: readonly HolderAddress[] | undefined
  /** The holders that were left out by a resharing, and have not been reached since: they still have to delete their shares. */
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
    ...(addresses === undefined ? {} : { addresses }),
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
  const fields = objectOf(signed, shown) as unknown as SignedFields
  const publicKey = publicKeyOf(fields.publicKey)
  checkShape(fields, publicKey, shown)
  return { ...fields, publicKey, digest: digestOf(signed), text }
}

/** A writer of another version of this library may have signed something else. */
function checkShape(
  manifest: Omit<Manifest, 'publicKey'>,
  { hArray }: PublicKey,
  shown: string,
): void {
  const { sequence, history, generation, threshold, addresses, dropped = [], secrets } = manifest
  const isCount = (value: unknown, max = Number.MAX_SAFE_INTEGER): boolean =>
    Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max
  const rules: readonly (readonly [boolean, string])[] = [
    [isCount(sequence), 'sequence is not a whole number from 1 on'],
    [
      Array.isArray(history) && history.length >= Math.min(sequence - 1, HISTORY),
      'history is not that of its sequence',
    ],
    [isCount(generation), 'generation is not a whole number from 1 on'],
    [isCount(hArray.length, MAX_HOLDERS), `there are not 1 to ${MAX_HOLDERS} holders`],
    [isCount(threshold, hArray.length), `threshold is not a whole number of 1 to ${hArray.length}`],
    [
      addresses === undefined || addresses.length === hArray.length,
      'addresses are not as many as the holders',
    ],
    [
      Array.isArray(dropped) && dropped.length <= MAX_DROPPED && dropped.every(isAddress),
      `dropped are not at most ${MAX_DROPPED} holders`,
    ],
    [
      [manifest.shareLifetime ?? 0, manifest.sharesExpireAt ?? 0].every(Number.isFinite),
      'shareLifetime and sharesExpireAt are not milliseconds',
    ],
    [Array.isArray(secrets) && secrets.every(isVersion), 'secrets are not versions of secrets'],
  ]
  const [, rule] = rules.find(([isRight]) => !isRight) ?? []
  if (rule !== undefined) throw new VaultError(`${shown}: ${rule}`)
}

function isAddress({ url, key }: HolderAddress): boolean {
  return typeof url === 'string' && /^[0-9a-f]{64}$/.test(key)
}

function isVersion(entry: SecretVersion): boolean {
  try {
    checkName(entry)
  } catch {
    return false
  }
  return (
    Number.isInteger(entry.version) &&
    Number.isFinite(entry.putAt) &&
    (entry.expiresAt === undefined || Number.isFinite(entry.expiresAt)) &&
    (entry.policy === undefined || isUse(entry.policy)) &&
    /^[0-9a-f]{64}$/.test(entry.digest)
  )
}

/** The published form of a public key: lower-case hexadecimal digits of its JSON text. */
export function hexOf(publicKey: PublicKey): string {
  return Buffer.from(formatPublicKey(publicKey)).toString('hex')
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

function objectOf(text: string, shown: string): Readonly<Record<string, unknown>> {
  try {
    return (JSON.parse(text) ?? {}) as Record<string, unknown>
  } catch {
    throw new VaultError(`${shown} is not JSON`)
  }
}
