// The external server and the remote enclave of the benchmark, in a process of their own.
import { startEnclaveServer } from '@sluice/confidential-http'
import { startHTTPSServer } from '@sluice/engine'

const [vault, key, caller, owner] = process.argv.slice(2)
const { url, ca } = await startHTTPSServer({
  handler(request, response) {
    request.resume()
    request.on('end', () => response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: '0x1' })))
  },
})
const enclave = await startEnclaveServer({
  vault,
  secretKey: key,
  callers: { [caller]: owner },
  network: { loopback: true },
})
process.send({ url, ca, enclaveURL: enclave.url })
