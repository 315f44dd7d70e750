import { type EnclavePlugin, readSecret } from 'sluice/plugins/confidential-http'
import { type ConfidentialPresetOptions, confidentialPreset } from 'sluice/presets/confidential'
import { loadFunction } from '../load-function.js'
import { serveThread } from '../thread/serve-thread.js'
import { openVault } from '../vault/open-vault.js'
import { CallEnclave, type EnclaveSettings } from './enclave.js'

/** The settings of an enclave's thread. */
interface ThreadSettings extends EnclaveSettings {
  /** The owner of the secrets that a local runtime may use. @default the owner of the vault */
  readonly owner?: string
}

type MakePlugins = (
  options: ConfidentialPresetOptions,
) => readonly EnclavePlugin[] | Promise<readonly EnclavePlugin[]>

serveThread<ThreadSettings>(async function openEnclave(settings, log) {
  const {
    vault: directory,
    rollbackState,
    callerSecretKey,
    insecurePermissions,
    stack,
    ...others
  } = settings
  const { owner, ...presetOptions } = others
  const vault = await openVault(directory, {
    ...(insecurePermissions !== undefined && { insecurePermissions }),
    ...(rollbackState !== undefined && { rollbackState }),
    ...(callerSecretKey !== undefined && { callerSecretKey }),
  })
  const makePlugins =
    stack === undefined ? confidentialPreset : await loadFunction<MakePlugins>('stack', stack)
  const enclave = new CallEnclave({ plugins: await makePlugins({ vault, ...presetOptions }) })
  enclave.listen(log)
  const caller = owner ?? vault.owner
  return {
    request: (request, { startedAt, signal }) =>
      enclave.send(request, { owner: caller, startedAt, signal }),
    call: (call, facts) => enclave.carryOut(call, facts),
    secrets: (names, signal) =>
      Promise.all(
        names.map(async name => ({
          owner: caller,
          value: await readSecret(vault, { ...name, owner: caller }, signal),
        })),
      ),
  }
})
