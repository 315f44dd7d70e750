import { loadPolicy } from '../attestation/software.js'
import { logOutcome } from '../outcome.js'
import { serveThread } from '../thread/serve-thread.js'
import { RemoteEnclave, type RemoteSettings } from './remote-enclave.js'

serveThread<RemoteSettings>(async function open(settings, log) {
  const { attestation } = settings
  const policy = attestation === undefined ? undefined : await loadPolicy(attestation)
  const enclave = new RemoteEnclave(settings, policy)
  return {
    request: (request, facts) => logOutcome(log, request, facts, enclave.ask(request, facts)),
  }
})
