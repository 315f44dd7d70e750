// Asks an enclave once.
import { readFileSync } from 'node:fs'
import { ConfidentialHTTPClient, createRemoteRuntime } from '@sluice/confidential-http'

const { url, enclaveKey, keyFile } = JSON.parse(process.argv[2])
const runtime = createRemoteRuntime({
  url,
  enclavePublicKey: enclaveKey,
  callerSecretKey: readFileSync(keyFile, 'utf8').trim(),
})
const request = { url: 'https://127.0.0.1:9/', method: 'GET' }
await new ConfidentialHTTPClient()
  .sendRequestAsync(runtime, { vaultDonSecrets: [], request })
  .catch(error => process.stdout.write(`${error.message}\n`))
await runtime.close()
process.exit()
