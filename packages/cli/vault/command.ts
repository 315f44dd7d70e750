import type { Vault } from '@sluice/confidential-http/vault'
import type { Command } from 'commander'

/** The options that every command of a vault has. */
export interface InVault {
  readonly vault: string
  readonly insecurePermissions?: boolean
  readonly rollbackState?: string
  /** A file with the key that holders which are processes know the command by. */
  readonly key?: string
}

/** The description of `--insecure-permissions`. */
export const insecurePermissionsText = 'go on even if others can read or write the files'

/** The description of `--key`. */
export const keyText = 'the key that holders which are processes know you by, made by keygen'

/** The description of `--rollback-state`. */
export const rollbackStateText =
  'a file that remembers the newest state of the vault, to reject older ones'

/** Adds a command of a vault, with an example for its help. */
export type Add = (name: string, description: string, example: string) => Command

/** Opens the vault of a command. */
export async function openVaultOf({
  vault,
  insecurePermissions = false,
  rollbackState,
  key,
}: InVault): Promise<Vault> {
  const { openVault } = await import('@sluice/confidential-http/vault')
  const { readKeyFile } = await import('@sluice/confidential-http')
  return await openVault(vault, {
    insecurePermissions,
    ...(rollbackState === undefined ? {} : { rollbackState }),
    ...(key === undefined ? {} : { callerSecretKey: readKeyFile(key, { insecurePermissions }) }),
  })
}
