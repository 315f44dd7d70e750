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
export async function putWithoutPolicy(
  { directory, owner, writerKey }: Vault,
  key: string,
  value: string,
): Promise<void> {
  const permissions = createPermissions({})
  const folder = new VaultFolder(directory, permissions)
  const log = new ManifestLog(
    folder,
    writerKey,
    new RollbackState(undefined, permissions, writerKey),
  )
  const name = { owner, namespace: 'main', key }
  await log.commit(await readWriter(folder, writerKey), async ({ publicKey, secrets }) => {
    const ciphertext = await encrypt(publicKey, Buffer.from(value), { label: ownerLabel(owner) })
    const digest = await new SecretStore(folder).write(name, ciphertext)
    return { secrets: addVersion(secrets, { ...name, putAt: Date.now(), digest }) }
  })
}
