import { createPermissions, formatName } from 'sluice/internal'
import type { SecretName, SecretUse } from 'sluice/plugins/confidential-http'
import { createVaultFolder } from '../../../vault/files.js'
import { createManifestLog } from '../../../vault/manifest-log.js'
import { createSecretStore } from '../../../vault/secret-store.js'
import { createSeen } from '../../../vault/seen.js'
import type { Vault } from '../../../vault/vault.js'
import { readWriter } from '../../../vault/writer.js'

/** Has the vault name a ciphertext of another's making, and a policy, as only who has its writer's key can. */
export async function plant(
  into: Vault,
  name: SecretName,
  ciphertext: string,
  policy?: SecretUse,
): Promise<void> {
  const permissions = createPermissions()
  const folder = createVaultFolder(into.directory, permissions)
  const digest = await createSecretStore(folder).write(name, ciphertext)
  const log = createManifestLog(
    folder,
    into.writerKey,
    createSeen(undefined, permissions, into.writerKey),
  )
  const writer = await readWriter(folder, into.writerKey)
  const planted = {
    ...name,
    version: 1,
    putAt: 1,
    digest,
    ...(policy === undefined ? {} : { policy }),
  }
  await log.commit(writer, ({ secrets }) => ({
    secrets: [planted, ...secrets.filter(each => formatName(each) !== formatName(name))],
  }))
}
