import { logOutcome } from '../log-outcome.js'
import { serveThread } from '../thread/serve-thread.js'
import { createAskEnclave, type RemoteSettings } from './ask-enclave.js'

serveThread<RemoteSettings>(async function open(settings, log) {
  const ask = await createAskEnclave(settings)
  return { answer: (request, facts) => logOutcome(log, request, facts, ask(request, facts)) }
})
