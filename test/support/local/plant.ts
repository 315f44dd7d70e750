import type { Vault } from '../../../local/index.js'
import { createVaultFolder } from '../../../local/vault/files.js'
import { createManifestLog } from '../../../local/vault/manifest-log.js'
import { createPermissions } from '../../../local/vault/permissions.js'
import { formatName, type SecretName } from '../../../local/vault/secret-name.js'
import type { SecretUse } from '../../../local/vault/secret-policy.js'
import { createSecretStore } from '../../../local/vault/secret-store.js'
import { createSeen } from '../../../local/vault/seen.js'
import { readWriter } from '../../../local/vault/writer.js'

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
