// A request with a secret that only the enclave has, here a thread of this process. The answer is
// encrypted.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  ConfidentialHTTPClient,
  createLocalRuntime,
  decryptResponse,
  httpRequest,
  ok,
} from '@sluice/confidential-http'
import { createVault } from '@sluice/confidential-http/vault'
import { startHTTPSServer } from '@sluice/engine'

// Stands in for an API: it answers whether it received the secret.
const api = await startHTTPSServer({
  handler: ({ headers }, response) =>
    void response.end(JSON.stringify({ known: headers['x-api-key'] === 'the-secret' })),
})

// In production `sluice vault put` does this in a separate process. Here this process knows the
// secret.
const folder = await mkdtemp(join(tmpdir(), 'sluice-example-'))
const vault = await createVault(join(folder, 'vault'))
const policy = { hosts: [new URL(api.url).host], in: ['header'], customRoots: true }
await vault.put({ key: 'apiKey' }, 'the-secret', { policy })
const aesKey = randomBytes(32).toString('hex')
await vault.put({ key: 'san_marino_aes_gcm_encryption_key' }, aesKey, { policy: 'anywhere' })

const runtime = createLocalRuntime({ vault })
const client = new ConfidentialHTTPClient()
const response = await client.sendRequestAsync(runtime, {
  vaultDonSecrets: [{ key: 'apiKey' }, { key: 'san_marino_aes_gcm_encryption_key' }],
  request: httpRequest({
    url: `${api.url}/accounts/42`,
    headers: { 'X-Api-Key': '{{.apiKey}}' },
    customRootCaCertPem: api.ca,
    encryptOutput: true,
    timeout: '3s',
  }),
})
console.log(`ok ${ok(response)}, ${response.body.length} encrypted bytes`)
console.log(new TextDecoder().decode(await decryptResponse(response, aesKey)))

await runtime.close()
await api.close()
await rm(folder, { recursive: true })
