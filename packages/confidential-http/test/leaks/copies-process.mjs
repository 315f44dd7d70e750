// An enclave in a process of its own whose memory is searched: a server of it, or a local runtime that also sends the requests.
import {
  ConfidentialHTTPClient,
  createLocalRuntime,
  startEnclaveServer,
} from '@sluice/confidential-http'

const { kind, options } = JSON.parse(process.env.ENCLAVE)
const client = new ConfidentialHTTPClient()
const runtime = kind === 'local' ? createLocalRuntime(options) : undefined
const server = kind === 'local' ? undefined : await startEnclaveServer(options)

// What is open ends with the process.
process.on('unhandledRejection', () => process.exit(1))
process.on('message', async ({ inputs }) => {
  for (const input of inputs) await client.sendRequestAsync(runtime, input)
  process.send({ done: inputs.length })
})
process.on('disconnect', () => process.exit())
process.send({ url: server?.url })
