import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { AbiCoder, Contract, Interface, JsonRpcProvider, Network } from 'ethers'
import { createPublicClient, encodeAbiParameters, encodeFunctionData, http, parseAbi } from 'viem'
import {
  encodeParameterPayload,
  encodeVerify,
  encodeVerifyBulk,
  type Hex,
  verifierProxyABI,
  verifyArgs,
  verifyBulkArgs,
} from '../../../../plugins/verify/onchain/index.js'
import { type Chain, startChain } from '../../../support/ethereum/chain.js'
import { setOf } from '../../../support/ethereum/reading.js'
import { publishedReports } from '../../../support/report/published-reports.js'
import { flip, makeReport, publishedSigners } from '../../../support/report/signed-reports.js'

const abi = parseAbi([
  'function verify(bytes payload, bytes parameterPayload) payable returns (bytes)',
  'function verifyBulk(bytes[] payloads, bytes parameterPayload) payable returns (bytes[])',
])
const ethers = new Interface(abi.map(({ name, inputs }) => ({ type: 'function', name, inputs })))
const token = '0x514910771AF9Ca656af840dff83E8264EcF986CA'
const reports = publishedReports.map(({ fullReport }) => fullReport as Hex)

describe.each([undefined, token] as const)('with the fee token %p', feeToken => {
  test('the parameter payload is that of viem and ethers', () => {
    const made = encodeParameterPayload(feeToken)
    if (feeToken === undefined) expect(made).toBe('0x')
    else {
      expect(made).toBe(encodeAbiParameters([{ type: 'address' }], [feeToken]))
      expect(made).toBe(AbiCoder.defaultAbiCoder().encode(['address'], [feeToken]))
    }
  })

  test('a call of verify is that of viem and ethers', () => {
    for (const report of reports) {
      const args = verifyArgs(report, feeToken)
      expect(args).toEqual([report, encodeParameterPayload(feeToken)])
      const made = encodeVerify(report, feeToken)
      expect(made).toBe(encodeFunctionData({ abi, functionName: 'verify', args }))
      expect(made).toBe(ethers.encodeFunctionData('verify', args))
    }
  })

  test.each([1, 2, 17])('a call of verifyBulk with %i reports, too', count => {
    const args = verifyBulkArgs(reports.slice(0, count), feeToken)
    const made = encodeVerifyBulk(reports.slice(0, count), feeToken)
    expect(made).toBe(encodeFunctionData({ abi, functionName: 'verifyBulk', args }))
    expect(made).toBe(ethers.encodeFunctionData('verifyBulk', args))
  })
})

describe('a contract', () => {
  let chain: Chain
  let url: string
  let provider: JsonRpcProvider
  beforeAll(async () => {
    chain = await startChain()
    for (const configDigest of new Set(publishedReports.map(each => each.configDigest)))
      await chain.setConfig(setOf(configDigest, publishedSigners))
    url = (await chain.startNode()).url
    provider = new JsonRpcProvider(url, Network.from(31337), { staticNetwork: true })
  })
  afterAll(() => {
    provider.destroy()
    chain.close()
  })
  const blobOf = (report: Hex): Hex => {
    const length = Number.parseInt(report.slice(2 + 64 * 7, 2 + 64 * 8), 16)
    return `0x${report.slice(2 + 64 * 8, 2 + 64 * 8 + 2 * length)}`
  }

  test('verifies the published reports by viem, one and all', async () => {
    const client = createPublicClient({ transport: http(url) })
    const contract = { address: chain.proxy, abi: verifierProxyABI }
    const [first = '0x'] = reports
    const one = await client.simulateContract({
      ...contract,
      functionName: 'verify',
      args: verifyArgs(first),
    })
    expect(one.result).toBe(blobOf(first))
    const args = verifyBulkArgs(reports)
    const all = await client.simulateContract({ ...contract, functionName: 'verifyBulk', args })
    expect(all.result).toEqual(reports.map(blobOf))
  })

  test('by ethers, with the same description', async () => {
    const contract = new Contract(chain.proxy, verifierProxyABI, provider)
    const verified = await contract.getFunction('verifyBulk').staticCall(...verifyBulkArgs(reports))
    expect([...verified]).toEqual(reports.map(blobOf))
    expect(await contract.getFunction('s_feeManager')()).toBe(`0x${'0'.repeat(40)}`)
  })

  test('by the bare call, and refuses a forged one', async () => {
    const [first = '0x'] = reports
    const data = encodeVerify(first, token)
    expect(await provider.call({ to: chain.proxy, data })).toBe(
      encodeAbiParameters([{ type: 'bytes' }], [blobOf(first)]),
    )
    // A bit of its price.
    const forged = flip(first, 8 * (32 * 15 - 1))
    await expect(provider.call({ to: chain.proxy, data: encodeVerify(forged) })).rejects.toThrow(
      /reverted/,
    )
  })
})

test.each<readonly [string, () => unknown]>([
  ['fullReport is no report: fullReport must begin with 0x', () => verifyArgs('12')],
  ['fullReport is no report: fullReport must be a string', () => encodeVerify(12 as never)],
  ['fullReport is no report: fullReport is cut short', () => encodeVerify('0x12')],
  ['fullReport is no report', () => encodeVerify(makeReport().fullReport.slice(0, -64))],
  ['fullReports[1] is no report', () => encodeVerifyBulk([makeReport().fullReport, '0x'])],
  ['fullReports must not be empty', () => verifyBulkArgs([])],
  ['fullReports must be a list', () => verifyBulkArgs('0x' as never)],
  ['feeToken must be 0x and 40', () => encodeParameterPayload('0x12')],
])('%s', (message, make) => {
  expect(make).toThrow(
    expect.objectContaining({ code: 'VALIDATION', message: expect.stringContaining(message) }),
  )
})
