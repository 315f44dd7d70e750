import { readSecret } from '../../plugins/confidential-http/secrets.js'
import { serveThread } from '../thread/serve-thread.js'
import { type EnclaveSettings, openEnclave } from './open-enclave.js'

/** What the thread of a local runtime is told. */
export interface LocalThreadSettings extends EnclaveSettings {
  /** Whose secrets may be used. @default the owner the vault was made for */
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
