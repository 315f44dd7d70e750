// The same request through an enclave elsewhere: only the runtime's construction differs.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  ConfidentialHTTPClient,
  createKeys,
  createRemoteRuntime,
  json,
  startEnclaveServer,
} from '@sluice/confidential-http'
import { createVault } from '@sluice/confidential-http/vault'
import { startHTTPSServer } from '@sluice/engine'

const api = await startHTTPSServer({
  handler: ({ headers }, response) =>
    void response.end(JSON.stringify({ known: headers['x-api-key'] === 'the-secret' })),
})

// The other host: `sluice vault init`, `sluice vault put` and `sluice enclave` do this.
const folder = await mkdtemp(join(tmpdir(), 'sluice-example-'))
const vault = await createVault(join(folder, 'vault'))
const policy = { hosts: [new URL(api.url).host], in: ['header'], customRoots: true }
await vault.put({ key: 'apiKey' }, 'the-secret', { policy })
const caller = createKeys()
const enclave = await startEnclaveServer({
  vault: vault.directory,
  secretKey: createKeys().secretKey,
  callers: { [caller.publicKey]: vault.owner },
  network: { loopback: true },
})

// This host: it knows where the enclave is, and pins its key.
const runtime = createRemoteRuntime({
  url: enclave.url,
  enclavePublicKey: enclave.publicKey,
  callerSecretKey: caller.secretKey,
})
const response = await new ConfidentialHTTPClient().sendRequestAsync(runtime, {
  vaultDonSecrets: [{ key: 'apiKey' }],
  request: {
    url: api.url,
    method: 'GET',
    multiHeaders: { 'X-Api-Key': { values: ['{{.apiKey}}'] } },
    customRootCaCertPem: api.ca,
  },
})
console.log(json(response))

await runtime.close()
await enclave.close()
await api.close()
await rm(folder, { recursive: true })
