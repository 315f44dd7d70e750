// Verifies reports with the signers of a verifier contract, read from an Ethereum node for each new configuration.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createClient, isStreamsError, type SignerSet, verifyReport } from 'sluice'
import { startDataEngine } from 'sluice/local'
import {
  type Address,
  createPublicClient,
  encodeAbiParameters,
  encodeEventTopics,
  type Hex,
  http,
  parseAbiItem,
} from 'viem'

const configSet = parseAbiItem(
  'event ConfigSet(bytes32 indexed configDigest, address[] signers, uint8 f)',
)
const contract: Address = '0x00000000000000000000000000000000000f00d5'

/** Finds the signers of a configuration in the log of the contract. */
function onchainSigners(url: string): (configDigest: string) => Promise<SignerSet | undefined> {
  const node = createPublicClient({ transport: http(url) })
  return async configDigest => {
    const logs = await node.getLogs({
      address: contract,
      event: configSet,
      args: { configDigest: configDigest as Hex },
      // The block of the contract's creation saves the node a search.
      fromBlock: 0n,
      strict: true,
    })
    const last = logs.at(-1)
    return last && { configDigest, signers: last.args.signers, f: last.args.f }
  }
}

const engine = await startDataEngine({ nodes: 7, f: 2 })
const { apiKey, userSecret, endpoint, wsEndpoint } = engine
const pretended = await pretendNode(engine.network)

const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
const signers = onchainSigners(pretended.url)
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

/** Stands in for an Ethereum node, whose contract has one configuration in its log. Use the URL of a real one instead. */
async function pretendNode(set: SignerSet) {
  let count = 0
  const topics = encodeEventTopics({
    abi: [configSet],
    args: { configDigest: set.configDigest as Hex },
  })
  const data = encodeAbiParameters(
    [{ type: 'address[]' }, { type: 'uint8' }],
    [set.signers as readonly Address[], set.f],
  )
  const log = {
    address: contract,
    topics,
    data,
    blockNumber: '0x10',
    blockHash: `0x${'11'.repeat(32)}`,
    transactionHash: `0x${'22'.repeat(32)}`,
    transactionIndex: '0x0',
    logIndex: '0x0',
    removed: false,
  }
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const { id, method, params } = JSON.parse(body)
    count++
    const isKnown = method === 'eth_getLogs' && params[0].topics[1] === topics[1]
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: isKnown ? [log] : [] }))
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
