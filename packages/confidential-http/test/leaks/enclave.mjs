// An enclave in the main thread of a process, as `sluice enclave` is one: makes a request, and one that fails.
import { request } from 'node:http'
import { confidentialPreset, createEnclave } from '@sluice/confidential-http'
import { openVault } from '@sluice/confidential-http/vault'

const { vault: directory, input } = JSON.parse(process.env.ENCLAVE)
const vault = await openVault(directory)
const enclave = createEnclave({
  plugins: confidentialPreset({ vault, network: { loopback: true } }),
})
const { statusCode } = await enclave.send(input, { owner: vault.owner })
const refused = { ...input, request: { ...input.request, customRootCaCertPem: '' } }
const error = await enclave.send(refused, { owner: vault.owner }).catch(thrown => thrown)
console.log(statusCode, error)
// Headers among the options are what NODE_DEBUG prints.
const planted = request('http://127.0.0.1:1/', { headers: { 'x-planted': process.env.DECOY } })
planted.on('error', () => process.exit(statusCode === 200 ? 0 : 1)).end()
