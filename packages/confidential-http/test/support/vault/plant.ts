import { createPermissions, formatName } from 'sluice/internal'
import type { SecretName, SecretUse } from 'sluice/plugins/confidential-http'
import { VaultFolder } from '../../../vault/files.js'
import { readWriter } from '../../../vault/identity.js'
import { ManifestLog } from '../../../vault/manifest-log.js'
import { RollbackState } from '../../../vault/rollback.js'
import { SecretStore } from '../../../vault/secret-store.js'
import type { Vault } from '../../../vault/vault.js'

/** Has the vault name a ciphertext of another's making, and a policy, as only who has its writer's key can. */
export async function plant(
  into: Vault,
  name: SecretName,
  ciphertext: string,
  policy?: SecretUse,
): Promise<void> {
  const permissions = createPermissions()
  const folder = new VaultFolder(into.directory, permissions)
  const digest = await new SecretStore(folder).write(name, ciphertext)
  const log = new ManifestLog(
    folder,
    into.writerKey,
    new RollbackState(undefined, permissions, into.writerKey),
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
