import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { JsonRpcProvider, Network } from 'ethers'
import { verifyReport } from '../../../../index.js'
import { type EthereumClient, onchainSigners } from '../../../../plugins/verify/onchain/index.js'
import { type Chain, startChain } from '../../../support/ethereum/chain.js'
import {
  connectViem,
  createSource,
  digestOf,
  failureOf,
  setOf,
} from '../../../support/ethereum/reading.js'
import { publishedReports } from '../../../support/report/published-reports.js'
import {
  addresses,
  makeReport,
  published,
  publishedSigners,
  signers,
} from '../../../support/report/signed-reports.js'

const providers: JsonRpcProvider[] = []
function connectEthers(url: string): EthereumClient {
  const provider = new JsonRpcProvider(url, Network.from(31337), { staticNetwork: true })
  providers.push(provider)
  return provider
}
const clients = [
  ['viem', connectViem],
  ['ethers', connectEthers],
] as const

let chain: Chain
beforeAll(async () => {
  chain = await startChain()
  for (const configDigest of new Set(publishedReports.map(each => each.configDigest)))
    await chain.setConfig(setOf(configDigest, publishedSigners))
})
afterAll(() => {
  for (const provider of providers) provider.destroy()
  chain.close()
})

describe.each(clients)('with a client of %s', (_name, connect) => {
  test('the published reports are verified, with one lookup for each configuration', async () => {
    const node = await chain.startNode()
    const source = onchainSigners({ client: connect(node.url), verifier: chain.proxy })
    for (const { fullReport, feedID, signers: who } of publishedReports) {
      const verified = await verifyReport(fullReport, { signers: source, feedID })
      expect(verified).toMatchObject({ f: 1, signers: who })
    }
    const count = (method: string): number => node.asked.filter(each => each === method).length
    expect(count('eth_getLogs')).toBe(4)
    // Of each configuration its verifier, block and state, and the names of the two contracts.
    expect(count('eth_call')).toBe(4 * 3 + 2)
  })

  test('a forged report is rejected by the signers of the chain', async () => {
    const node = await chain.startNode()
    const source = onchainSigners({ client: connect(node.url), verifier: chain.proxy })
    const { configDigest } = published(8)
    const forged = makeReport({ digest: configDigest as `0x${string}`, by: [0, 1] })
    await expect(verifyReport(forged.fullReport, { signers: source })).rejects.toMatchObject({
      reason: 'unknown-signer',
    })
  })

  test('there are none of a configuration that the contracts do not have', async () => {
    const node = await chain.startNode()
    const source = onchainSigners({ client: connect(node.url), verifier: chain.proxy })
    expect(await source(digestOf(404))).toBeUndefined()
    expect(node.asked).not.toContain('eth_getLogs')
  })

  test('a deactivated configuration has none, until it is active again', async () => {
    const digest = digestOf(1)
    await chain.setConfig(setOf(digest))
    await chain.setActive(digest, false)
    const node = await chain.startNode()
    const source = onchainSigners({
      client: connect(node.url),
      verifier: chain.proxy,
      maxAge: Infinity,
    })
    expect(await source(digest)).toBeUndefined()
    await chain.setActive(digest, true)
    expect(await source(digest)).toEqual(setOf(digest))
  })

  test('a configuration that the proxy no longer knows has none', async () => {
    const digest = digestOf(2)
    await chain.setConfig(setOf(digest))
    await chain.unsetVerifier(digest)
    const node = await chain.startNode()
    expect(
      await onchainSigners({ client: connect(node.url), verifier: chain.proxy })(digest),
    ).toBeUndefined()
  })

  test('changed signers take the place of the first, with the f that the contract has', async () => {
    const digest = digestOf(3)
    const next = { signers: addresses.slice(5, 12), f: 1 }
    await chain.setConfig(setOf(digest))
    await chain.updateConfig(digest, signers, next)
    const node = await chain.startNode()
    const client = connect(node.url)
    const source = onchainSigners({ client, verifier: chain.proxy, maxAge: Infinity })
    expect(await source(digest)).toEqual(setOf(digest, next))
    const direct = onchainSigners({ client, verifier: chain.verifier })
    expect(await failureOf(direct(digest))).toMatch(
      /ConfigUpdated, which does not have f: give the address/,
    )
  })

  test('the address of the verifier itself does, too', async () => {
    const digest = digestOf(4)
    await chain.setConfig(setOf(digest))
    const node = await chain.startNode()
    const source = onchainSigners({
      client: connect(node.url),
      verifier: chain.verifier.toUpperCase().replace('X', 'x'),
      maxAge: Infinity,
    })
    expect(await source(digest)).toEqual(setOf(digest))
  })

  test('a node that is away causes an error without its URL, and is asked again', async () => {
    const digest = digestOf(5)
    await chain.setConfig(setOf(digest))
    let isAway = true
    const node = await chain.startNode((_method, _params, next) => {
      if (isAway) throw 503
      return next()
    })
    const source = onchainSigners({
      client: connect(node.url),
      verifier: chain.proxy,
      maxAge: Infinity,
    })
    expect(await failureOf(source(digest))).toMatch(/^eth_call failed: .*(503|HTTP|coalesce)/)
    isAway = false
    expect(await source(digest)).toEqual(setOf(digest))
    await node.close()
    expect(await failureOf(source(digestOf(6)))).toMatch(/^eth_call failed: /)
  })

  test('a node that does not answer has its time', async () => {
    const node = await chain.startNode(() => new Promise(() => undefined))
    const source = onchainSigners({
      client: connect(node.url),
      verifier: chain.proxy,
      timeout: 100,
    })
    expect(await failureOf(source(digestOf(7)))).toBe('eth_call took over 100 ms')
    await node.close()
  })
})

describe('the contract', () => {
  test.each([
    ['OldVerifier', /^the contract 0x\w+ is Verifier 1.2.0: only those of Verifier 2 log/],
    [
      'DestinationVerifierProxy',
      /^the contract 0x\w+ on chain 31337 is DestinationVerifierProxy 0.4.0, and not a VerifierProxy/,
    ],
  ] as const)('%s is rejected by name', async (name, message) => {
    const verifier = await chain.deploy(name, name === 'OldVerifier' ? chain.proxy : undefined)
    const { source } = await createSource(chain, undefined, { verifier })
    expect(await failureOf(source(digestOf(8)))).toMatch(message)
  })

  test('behind a proxy may be one that is rejected by name', async () => {
    const old = await chain.deploy('OldVerifier', chain.proxy)
    await chain.setConfig(setOf(digestOf(9)), old)
    const { source } = await createSource(chain)
    expect(await failureOf(source(digestOf(9)))).toMatch(/is Verifier 1.2.0/)
  })

  test('is asked for where there is none', async () => {
    const { source } = await createSource(chain, undefined, { verifier: `0x${'ab'.repeat(20)}` })
    expect(await failureOf(source(digestOf(10)))).toBe(
      `there is no verifier at 0x${'ab'.repeat(20)} on chain 31337`,
    )
  })
})
