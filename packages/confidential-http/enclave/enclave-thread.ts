import { readSecret } from 'sluice/plugins/confidential-http'
import { serveThread } from '../thread/serve-thread.js'
import { type EnclaveSettings, openEnclave } from './open-enclave.js'

/** The settings of an enclave's thread. */
export interface EnclaveThreadSettings extends EnclaveSettings {
  /** The owner of the secrets that a local runtime may use. @default the owner of the vault */
  readonly owner?: string
}

serveThread<EnclaveThreadSettings>(async function open({ owner, ...settings }, log) {
  const opened = await openEnclave(settings)
  opened.enclave.listen(log)
  const caller = owner ?? opened.owner
  return {
    answer: (request, { startedAt, signal }) =>
      opened.enclave.send(request, { owner: caller, startedAt, signal }),
    carryOut: opened.enclave.carryOut,
    readSecrets: names =>
      Promise.all(
        names.map(async name => ({
          owner: caller,
          value: await readSecret(opened.vault, { ...name, owner: caller }),
        })),
      ),
  }
})
