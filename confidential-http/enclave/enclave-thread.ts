import { readSecret } from '../../plugins/confidential-http/secrets.js'
import { serveThread } from '../thread/serve-thread.js'
import { type EnclaveSettings, openEnclave } from './open-enclave.js'

/** The settings of the thread of a local runtime. */
export interface LocalThreadSettings extends EnclaveSettings {
  /** The owner of the secrets that may be used. @default the owner of the vault */
  readonly owner?: string
}

serveThread<LocalThreadSettings>(async function open({ owner, ...settings }, log) {
  const opened = await openEnclave(settings)
  opened.enclave.listen(log)
  const caller = owner ?? opened.owner
  return {
    answer: (request, facts) => opened.enclave.send(request, { owner: caller, ...facts }),
    readSecrets: names =>
      Promise.all(
        names.map(async name => ({
          owner: caller,
          value: await readSecret(opened.vault, { ...name, owner: caller }),
        })),
      ),
  }
})
