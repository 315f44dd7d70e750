import { encrypt, ownerLabel } from '../../../crypto/tdh2/index.js'
import type { Vault } from '../../../local/index.js'
import { createVaultFolder } from '../../../local/vault/files.js'
import { createManifestLog } from '../../../local/vault/manifest-log.js'
import { createPermissions } from '../../../local/vault/permissions.js'
import { createSecretStore } from '../../../local/vault/secret-store.js'
import { createSeen } from '../../../local/vault/seen.js'
import { addVersion } from '../../../local/vault/versions.js'
import { readWriter } from '../../../local/vault/writer.js'

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
