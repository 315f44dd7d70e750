import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { type Chain, startChain } from '@sluice/test-support/ethereum/chain.js'
import { setOf } from '@sluice/test-support/ethereum/reading.js'
import { published, publishedSigners } from '@sluice/test-support/report/signed-reports.js'
import { until } from '@sluice/test-support/waiting.js'
import { runHere, start } from './support/cli.js'

const { fullReport, configDigest, signers } = published(8)

let chain: Chain
beforeAll(async () => {
  chain = await startChain()
  await chain.setConfig(setOf(configDigest, publishedSigners))
})
afterAll(() => chain.close())

const verify = (...args: readonly string[]) => runHere(['verify', fullReport, ...args])

describe('sluice verify --onchain', () => {
  test('verifies by the signers of a contract', async () => {
    const { url } = await chain.startNode()
    const { code, out, err } = await verify('--onchain', `${url}?key=1`, '--verifier', chain.proxy)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    for (const signer of signers) expect(out).toContain(`signer         ${signer}`)
  })

  test('rejects a report whose configuration the contract does not have', async () => {
    const { url } = await chain.startNode()
    const other = published(0).fullReport
    const args = ['verify', other, '--onchain', url, '--verifier', chain.proxy, '--json']
    const { code, out } = await runHere(args)
    expect(code).toBe(1)
    expect(JSON.parse(out)).toMatchObject({ verified: false, reason: 'unknown-digest' })
  })

  test('finds the contract of the network by the number of its chain', async () => {
    const { url, asked } = await chain.startNode(async (method, params, next) => {
      if (method === 'eth_chainId') return '0xa4b1'
      // The list has another address for this network, where the chain has none.
      const [call] = params as { to?: string }[]
      if (call?.to !== undefined) expect(call.to).toBe('0x478aa2ac9f6d65f84e09d9185d126c3a17c2a93c')
      return next()
    })
    const { code, err } = await verify('--onchain', url)
    expect(code).toBe(1)
    expect(err).toMatch(/no verifier at 0x478aa2ac9f6d65f84e09d9185d126c3a17c2a93c on chain 42161/)
    expect(asked[0]).toBe('eth_chainId')
  })

  test('says that a node is away, without its URL', async () => {
    const node = await chain.startNode()
    await node.close()
    const ways = [
      { args: [], exit: 4 },
      // The report could not be verified.
      { args: ['--verifier', chain.proxy], exit: 1 },
    ]
    for (const { args, exit } of ways) {
      const { code, out, err } = await verify('--onchain', node.url, ...args)
      expect({ code, out }).toEqual({ code: exit, out: '' })
      expect(err).toMatch(/signers-unavailable|ECONNREFUSED/)
      expect(err).not.toContain('secret-key')
    }
  })

  test.each([
    ['--signers or --onchain must be given', []],
    ['--verifier needs --onchain', ['--verifier', `0x${'ab'.repeat(20)}`]],
    [
      "'--onchain <url>' cannot be used with option '--f <n>'",
      ['--onchain', 'http://x', '--f', '1'],
    ],
    ['--onchain must begin with http', ['--onchain', 'ftp://x']],
    ['verifier must be 0x and 40', ['--onchain', 'http://127.0.0.1:9', '--verifier', '0x12']],
  ])('%s', async (message, args) => {
    const { code, err } = await verify(...args)
    expect(code).toBe(2)
    expect(err).toContain(message)
  })

  test('the verifier must be given for a network that is not in the list', async () => {
    const { url } = await chain.startNode()
    const { code, err } = await verify('--onchain', url)
    expect(code).toBe(2)
    expect(err).toContain(
      '--verifier must be given: the verifier of chain 31337 is not in the list',
    )
  })
})

test('sluice stream --onchain prints what the signers of a contract have signed', async () => {
  const feedID = `0x1003${'5a'.repeat(30)}`
  await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 20, history: 0 })
  await chain.setConfig(engine.network)
  const { url } = await chain.startNode()
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const running = start(['stream', feedID, '--onchain', url, '--verifier', chain.proxy, '--json'], {
    env: { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint },
  })
  await until(() => running.output.out.split('\n').length > 3)
  engine.rotate()
  await until(() => /is not verified/.test(running.output.err))
  running.stop()
  expect((await running.ended).err).toMatch(/ reports, \d+ verified, .* rejected [1-9]/)
})
