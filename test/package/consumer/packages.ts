// What stands on the library, as a user's program on Node has it.
import {
  type CapabilityRuntime,
  ConfidentialHTTPClient,
  type ConfidentialHTTPRequest,
  type ConfidentialHTTPRequestJson,
  type ConfidentialPresetOptions,
  confidentialPreset,
  createLocalRuntime,
  type EnclavePlugin,
  type HTTPResponse,
  json,
  ok,
} from '@sluice/confidential-http'
import { createVault, type Vault } from '@sluice/confidential-http/vault'
import { templates } from 'sluice/plugins/confidential-http'
import { type PublicKey, parsePublicKey } from 'sluice/tdh2'

/** Types that are the same in both directions. */
type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : false) : false
const holds = <Claim extends true>(_claim: Claim): void => undefined

// A confidential request, in each of its forms, on whatever has the one member a runtime needs.
const message: ConfidentialHTTPRequest = {
  vaultDonSecrets: [{ key: 'token', namespace: 'main' }],
  request: {
    url: 'https://api.example',
    method: 'POST',
    body: { case: 'bodyString', value: '{{.token}}' },
    timeout: { seconds: 5n, nanos: 0 },
    encryptOutput: true,
  },
}
const plainJson: ConfidentialHTTPRequestJson = {
  vaultDonSecrets: [{ key: 'token' }],
  request: { url: 'https://api.example', method: 'POST', bodyBytes: 'AAEC', timeout: '5s' },
}
export async function askInConfidence(runtime: CapabilityRuntime): Promise<unknown> {
  const client = new ConfidentialHTTPClient()
  const response: HTTPResponse = await client.sendRequestAsync(runtime, message)
  const blocking = client.sendRequest(runtime, plainJson)
  holds<Same<ReturnType<typeof blocking.result>, HTTPResponse>>(true)
  // @ts-expect-error: a request has a body of its own name
  void client.sendRequest(runtime, { request: { url: 'x', method: 'GET', headers: {} } })
  const isOk: boolean = ok(response)
  return isOk ? json(response) : undefined
}
export const inConfidence: readonly unknown[] = [createLocalRuntime, createVault]
export function ownEnclave({ vault }: ConfidentialPresetOptions): PublicKey {
  const stack: readonly EnclavePlugin[] = [...confidentialPreset({ vault }).slice(1), templates()]
  return stack.length > 0 ? vault.publicKey : parsePublicKey('')
}
export const vaultOf = (directory: string): Promise<Vault> => createVault(directory)
