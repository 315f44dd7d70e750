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
  return (request, facts) => opened.enclave.send(request, { owner: caller, ...facts })
})
