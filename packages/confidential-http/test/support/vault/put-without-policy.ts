import { createPermissions } from 'sluice/internal'
import { encrypt, ownerLabel } from 'sluice/tdh2'
import { createVaultFolder } from '../../../vault/files.js'
import { createManifestLog } from '../../../vault/manifest-log.js'
import { createSecretStore } from '../../../vault/secret-store.js'
import { createSeen } from '../../../vault/seen.js'
import type { Vault } from '../../../vault/vault.js'
import { addVersion } from '../../../vault/versions.js'
import { readWriter } from '../../../vault/writer.js'

/** Stores the value alone, as vaults did before there were policies. */
export async function putWithoutPolicy(
  { directory, owner, writerKey }: Vault,
  key: string,
  value: string,
): Promise<void> {
  const permissions = createPermissions({})
  const folder = createVaultFolder(directory, permissions)
  const log = createManifestLog(folder, writerKey, createSeen(undefined, permissions, writerKey))
  const name = { owner, namespace: 'main', key }
  await log.commit(await readWriter(folder, writerKey), async ({ publicKey, secrets }) => {
    const ciphertext = await encrypt(publicKey, Buffer.from(value), { label: ownerLabel(owner) })
    const digest = await createSecretStore(folder).write(name, ciphertext)
    return { secrets: addVersion(secrets, { ...name, putAt: Date.now(), digest }) }
  })
}
