// An enclave in a process of its own, with two callers who do not trust each other.
import { setServers } from 'node:dns'
import { startEnclaveServer } from '@sluice/confidential-http'

process.once('message', async ({ dns, ...options }) => {
  // For those who look names up by it.
  setServers([dns])
  const enclave = await startEnclaveServer({ ...options, network: { loopback: true } })
  process.send({ url: enclave.url, publicKey: enclave.publicKey })
})
