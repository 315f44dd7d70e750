// A chain of one EVM in a process of its own: answers messages { id, method, params } as an Ethereum node does.
import { Common, Hardfork, Mainnet } from '@ethereumjs/common'
import { createEVM } from '@ethereumjs/evm'
import {
  bytesToHex,
  createAddressFromString,
  createZeroAddress,
  hexToBytes,
} from '@ethereumjs/util'

const common = new Common({ chain: Mainnet, hardfork: Hardfork.Shanghai })
const evm = await createEVM({ common })
/** Logs with their block, in order. */
const logs = []
let number = 0
let deployed = 0
/** With a parent chain, contracts see its number, as on Arbitrum: 48 blocks have the same. */
let hasParent = false

const parentOf = block => 20_000_000 + Math.floor(block / 48)
const hex = value => `0x${value.toString(16)}`

function headerOf(block) {
  return {
    number: BigInt(hasParent ? parentOf(block) : block),
    coinbase: createZeroAddress(),
    timestamp: BigInt(1_700_000_000 + 12 * block),
    difficulty: 0n,
    prevRandao: new Uint8Array(32),
    gasLimit: 30_000_000n,
    baseFeePerGas: 0n,
    getBlobGasPrice: () => 0n,
  }
}

async function run({ from, to, data }, block) {
  const { execResult, createdAddress } = await evm.runCall({
    caller: createAddressFromString(from ?? `0x${'c0'.repeat(20)}`),
    ...(to === undefined ? {} : { to: createAddressFromString(to) }),
    data: hexToBytes(data ?? '0x'),
    gasLimit: 30_000_000n,
    gasPrice: 0n,
    block: { header: headerOf(block) },
    skipBalance: true,
  })
  const returned = bytesToHex(execResult.returnValue)
  if (execResult.exceptionError !== undefined) {
    throw { code: 3, message: 'execution reverted', data: returned }
  }
  return { returned, createdAddress, logs: execResult.logs ?? [] }
}

async function transact(call) {
  number++
  const result = await run(call, number)
  for (const [address, topics, data] of result.logs)
    logs.push({
      address: bytesToHex(address),
      topics: topics.map(bytesToHex),
      data: bytesToHex(data),
      blockNumber: hex(number),
      blockHash: `0x${'b0'.repeat(32)}`,
      transactionHash: `0x${number.toString(16).padStart(64, '0')}`,
      transactionIndex: '0x0',
      logIndex: hex(logs.length),
      removed: false,
    })
  return result
}

function matches(log, { address, topics = [] }) {
  if (address !== undefined && address.toLowerCase() !== log.address) return false
  return topics.every((topic, at) => topic === null || [topic].flat().includes(log.topics[at]))
}

const blockOf = name => (name === 'latest' ? number : Number(name))

const methods = {
  eth_chainId: () => '0x7a69',
  net_version: () => '31337',
  eth_blockNumber: () => hex(number),
  eth_getLogs: ([filter]) => {
    const [from, to] = [blockOf(filter.fromBlock ?? 'latest'), blockOf(filter.toBlock ?? 'latest')]
    if (to > number)
      throw { code: -32000, message: 'One of the blocks specified in filter cannot be found' }
    return logs.filter(log => {
      const block = Number(log.blockNumber)
      return block >= from && block <= to && matches(log, filter)
    })
  },
  eth_getBlockByNumber: ([name]) => {
    const block = blockOf(name)
    if (block > number) return null
    return { number: hex(block), ...(hasParent ? { l1BlockNumber: hex(parentOf(block)) } : {}) }
  },
  eth_call: async ([call]) => {
    await evm.stateManager.checkpoint()
    try {
      return (await run(call, number)).returned
    } finally {
      await evm.stateManager.revert()
    }
  },
  test_useParent: ([value]) => {
    hasParent = value
  },
  test_mine: ([count]) => {
    number += count
  },
  test_deploy: async ([data]) => {
    deployed++
    const { createdAddress } = await transact({
      data,
      from: `0x${deployed.toString(16).padStart(40, 'd')}`,
    })
    return createdAddress.toString()
  },
  test_transact: async ([to, data]) => {
    await transact({ to, data })
  },
}

process.on('message', async ({ id, method, params }) => {
  try {
    if (!(method in methods)) throw { code: -32601, message: `the method ${method} does not exist` }
    process.send({ id, result: (await methods[method](params ?? [])) ?? null })
  } catch (error) {
    const { code = -32603, message, data } = error
    process.send({ id, error: { code, message, ...(data === undefined ? {} : { data }) } })
  }
})
process.on('disconnect', () => process.exit())
process.send('ready')
