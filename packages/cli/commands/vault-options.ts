import type { Vault } from '@sluice/confidential-http/vault'
import { given, type Values } from '../command.js'

/** The options of every command that opens a vault. */
export const vaultOptions = {
  vault: { is: 'dir', help: 'its directory', default: './vault' },
  insecurePermissions: { help: 'continue even if others can read or write the files' },
  rollbackState: {
    is: 'file',
    help: 'a file that remembers the newest state of the vault, to reject older ones',
  },
} as const

/** The option of the commands that talk to holders in other processes. */
export const keyOption = {
  key: { is: 'file', help: 'the key that holders which are processes know you by, made by keygen' },
} as const

/** Opens the vault that the options of a command name. */
export async function openVaultOf(
  options: Values<typeof vaultOptions> & Values<typeof keyOption>,
): Promise<Vault> {
  const { openVault } = await import('@sluice/confidential-http/vault')
  const { readKeyFile } = await import('@sluice/confidential-http')
  const { vault, insecurePermissions = false, rollbackState, key } = options
  const callerSecretKey = key === undefined ? undefined : readKeyFile(key, { insecurePermissions })
  return openVault(vault, { insecurePermissions, ...given({ rollbackState, callerSecretKey }) })
}
