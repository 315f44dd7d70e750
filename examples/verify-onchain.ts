// Verifies reports with the signers of a verifier contract, read from an Ethereum node for each new
// configuration.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startDataEngine } from '@sluice/engine'
import { createClient, isStreamsError, type SignerSet, verifyReport } from 'sluice'
import { onchainSigners } from 'sluice/plugins/verify/onchain'
import {
  type Address,
  createPublicClient,
  decodeFunctionData,
  encodeAbiParameters,
  encodeErrorResult,
  encodeEventTopics,
  encodeFunctionResult,
  type Hex,
  http,
  parseAbi,
} from 'viem'

// That of your network: `verifierProxies` of sluice/plugins/verify/onchain has them.
const contract: Address = '0x00000000000000000000000000000000000f00d5'

const engine = await startDataEngine({ nodes: 7, f: 2 })
const { apiKey, userSecret, endpoint, wsEndpoint } = engine
const pretended = await pretendNode(engine.network)

const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
const node = createPublicClient({ transport: http(pretended.url) })
const signers = onchainSigners({ client: node, verifier: contract })
for (const feedID of engine.feeds.slice(0, 3)) {
  const report = await client.getLatestReport(feedID)
  const verified = await verifyReport(report.fullReport, { signers, feedID })
  console.log(`${verified.signers.length} of ${verified.f + 1} signatures, ${feedID}`)
}
console.log(`the node was asked ${pretended.asked()} times`)

// A report of a network that is not in the contract.
const unknown = await startDataEngine({ seed: 2 })
const elsewhere = createClient({
  apiKey: unknown.apiKey,
  userSecret: unknown.userSecret,
  endpoint: unknown.endpoint,
  wsEndpoint: unknown.wsEndpoint,
})
const { fullReport } = await elsewhere.getLatestReport(unknown.feeds[0] as string)
await verifyReport(fullReport, { signers }).catch((error: unknown) => {
  if (isStreamsError(error, 'VERIFICATION')) console.log(`rejected: ${error.reason}`)
  else throw error
})

await Promise.all([client.close(), elsewhere.close(), engine.close(), unknown.close()])
pretended.close()

/**
 * Stands in for an Ethereum node, whose contracts have one configuration. Use the URL of a real one
 * instead.
 */
async function pretendNode({ configDigest, signers, f }: SignerSet) {
  let count = 0
  const abi = parseAbi([
    'function typeAndVersion() view returns (string)',
    'function getVerifier(bytes32 configDigest) view returns (address)',
    'function latestConfigDetails(bytes32 configDigest) view returns (uint32)',
    'function verify(bytes signedReport, address sender) returns (bytes)',
    'error IncorrectSignatureCount(uint256 numSigners, uint256 expectedNumSigners)',
    'event ConfigSet(bytes32 indexed configDigest, address[] signers, uint8 f)',
  ])
  const verifier: Address = '0x00000000000000000000000000000000000f00d6'
  const log = {
    address: verifier,
    topics: encodeEventTopics({
      abi,
      eventName: 'ConfigSet',
      args: { configDigest: configDigest as Hex },
    }),
    data: encodeAbiParameters(
      [{ type: 'address[]' }, { type: 'uint8' }],
      [signers as readonly Address[], f],
    ),
    blockNumber: '0x10',
    logIndex: '0x0',
    removed: false,
  }

  /** What a contract returns. */
  function call(to: string, data: Hex): Hex {
    const { functionName, args } = decodeFunctionData({ abi, data })
    if (functionName === 'typeAndVersion') {
      const result = to === verifier ? 'Verifier 2.0.0' : 'VerifierProxy 2.0.0'
      return encodeFunctionResult({ abi, functionName, result })
    }
    if (functionName === 'getVerifier') {
      const result = args[0] === configDigest ? verifier : `0x${'0'.repeat(40)}`
      return encodeFunctionResult({ abi, functionName, result: result as Address })
    }
    if (functionName === 'latestConfigDetails')
      return encodeFunctionResult({ abi, functionName, result: 0x10 })
    const errorArgs = [0n, BigInt(f + 1)] as const
    throw encodeErrorResult({ abi, errorName: 'IncorrectSignatureCount', args: errorArgs })
  }

  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const { id, method, params } = JSON.parse(body)
    count++
    const answer: { result?: unknown; error?: object } = {}
    try {
      if (method === 'eth_call') answer.result = call(params[0].to, params[0].data)
      else answer.result = method === 'eth_getLogs' ? [log] : '0x20'
    } catch (data) {
      answer.error = { code: 3, message: 'execution reverted', data }
    }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    asked: () => count,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
