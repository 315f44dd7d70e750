import { createPermissions } from 'sluice/internal'
import { encrypt, ownerLabel } from 'sluice/tdh2'
import { VaultFolder } from '../../../vault/files.js'
import { readWriter } from '../../../vault/identity.js'
import { addVersion } from '../../../vault/manifest.js'
import { ManifestLog } from '../../../vault/manifest-log.js'
import { RollbackState } from '../../../vault/rollback.js'
import { SecretStore } from '../../../vault/secret-store.js'
import type { Vault } from '../../../vault/vault.js'

/** Stores the value alone, as vaults did before there were policies. */
export function putWithoutPolicy(vault: Vault, key: string, value: string): Promise<void> {
  return commit(vault, [key], value)
}

/** Stores so many secrets of the vault's owner by one change. */
export function putMany(vault: Vault, count: number): Promise<void> {
  return commit(
    vault,
    Array.from({ length: count }, (_, index) => `many${index}`),
    '',
  )
}

async function commit(
  { directory, owner, writerKey }: Vault,
  keys: readonly string[],
  value: string,
): Promise<void> {
  const permissions = createPermissions({})
  const folder = new VaultFolder(directory, permissions)
  const log = new ManifestLog(
    folder,
    writerKey,
    new RollbackState(undefined, permissions, writerKey),
  )
  await log.commit(await readWriter(folder, writerKey), async ({ publicKey, secrets }) => {
    const ciphertext = await encrypt(publicKey, Buffer.from(value), { label: ownerLabel(owner) })
    let next = secrets
    for (const key of keys) {
      const name = { owner, namespace: 'main', key }
      const digest = await new SecretStore(folder).write(name, ciphertext)
      next = addVersion(next, { ...name, putAt: Date.now(), digest })
    }
    return { secrets: next }
  })
}
