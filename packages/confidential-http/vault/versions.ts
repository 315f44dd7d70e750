import { ValidationError } from 'sluice/core'
import { formatName } from 'sluice/internal'
import { type SecretName, VaultError } from 'sluice/plugins/confidential-http'
import type { SecretVersion } from './manifest.js'

/** The most secrets of an owner. */
export const MAX_SECRETS = 100
/** How many versions of a secret stay: the one in use, and those before it. */
export const MAX_VERSIONS = 3

/** The versions of a secret, the one in use first. Throws VaultError where there is no such secret. */
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

/** The version in use of a secret. Throws VaultError where there is none, or it has expired (`SECRET_EXPIRED`). */
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
