import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { encodeAbiParameters, type Hex } from 'viem'
import { verifyReport } from '../../../../index.js'
import {
  type OnchainSignersOptions,
  onchainSigners,
} from '../../../../plugins/verify/onchain/index.js'
import { type Answer, type Chain, startChain } from '../../../support/ethereum/chain.js'
import {
  connectViem,
  createSource,
  digestOf,
  failureOf,
  setOf,
} from '../../../support/ethereum/reading.js'
import { addresses, makeReport, signers, TIME } from '../../../support/report/signed-reports.js'

let chain: Chain
const digest = digestOf(1)
beforeAll(async () => {
  chain = await startChain()
  await chain.setConfig(setOf(digest))
})
afterAll(() => chain.close())
afterEach(() => void jest.useRealTimers())

/** Changes the answers to a method. */
const changing =
  (asked: string, change: (answer: unknown, params: readonly unknown[]) => unknown): Answer =>
  async (method, params, next) => {
    const answer = await next()
    return method === asked ? change(answer, params) : answer
  }

interface TestLog {
  readonly topics: readonly string[]
}
const changingLogs = (change: (log: TestLog) => unknown): Answer =>
  changing('eth_getLogs', logs => (logs as TestLog[]).map(change))

const encode = (list: readonly string[], f: number): Hex =>
  encodeAbiParameters([{ type: 'address[]' }, { type: 'uint8' }], [list as Hex[], f])

const notAsked = 'eth_getLogs was answered with a log that was not asked for'
const malformed = 'a contract’s answer or log is not encoded as it should be'
const word = (digits: string): string => digits.padStart(64, '0')

describe('a node that answers wrongly is found out', () => {
  test.each<readonly [string, string | RegExp, Answer]>([
    [
      'a log of another contract',
      notAsked,
      changingLogs(log => ({ ...log, address: `0x${'12'.repeat(20)}` })),
    ],
    [
      'one of another configuration',
      notAsked,
      changingLogs(log => ({ ...log, topics: [log.topics[0], digestOf(2)] })),
    ],
    [
      'one of another event',
      notAsked,
      changingLogs(log => ({ ...log, topics: [digestOf(2), digest] })),
    ],
    ['one of another block', notAsked, changingLogs(log => ({ ...log, blockNumber: '0x1' }))],
    ['one of a later block', notAsked, changingLogs(log => ({ ...log, blockNumber: '0xffffff' }))],
    ['one that was removed', notAsked, changingLogs(log => ({ ...log, removed: true }))],
    ['one without topics', notAsked, changingLogs(log => ({ ...log, topics: undefined }))],
    [
      'one without its place in the block',
      'the index of a log was not answered with a number in hexadecimal',
      changingLogs(log => ({ ...log, logIndex: undefined })),
    ],
    ['no log', /in hexadecimal$/, changingLogs(() => null)],
    [
      'no list',
      'eth_getLogs was not answered with a list of logs',
      changing('eth_getLogs', () => ({})),
    ],
    [
      'data that are none',
      'the data of a log was not answered with bytes in hexadecimal',
      changingLogs(log => ({ ...log, data: '0x0' })),
    ],
    [
      'data that are cut short',
      malformed,
      changingLogs(log => ({ ...log, data: encode(signers.signers, 2).slice(0, -64) })),
    ],
    [
      'data with more',
      malformed,
      changingLogs(log => ({ ...log, data: `${encode(signers.signers, 2)}${word('')}` })),
    ],
    [
      'a list that begins elsewhere',
      malformed,
      changingLogs(log => ({ ...log, data: `0x${word('60')}${word('2')}${word('')}${word('')}` })),
    ],
    [
      'a list without end',
      malformed,
      changingLogs(log => ({ ...log, data: `0x${word('40')}${word('2')}${'f'.repeat(64)}` })),
    ],
    [
      'addresses that are too long',
      malformed,
      changingLogs(log => ({
        ...log,
        data: `0x${word('40')}${word('2')}${word('1')}${'f'.repeat(64)}`,
      })),
    ],
    [
      'another f than the contract’s',
      'the log has an f of 1, the contract one of 2',
      changingLogs(log => ({ ...log, data: encode(signers.signers, 1) })),
    ],
    [
      'no bytes',
      'eth_call was not answered with bytes in hexadecimal',
      changing('eth_call', () => 12),
    ],
    [
      'far too many bytes',
      'eth_call was not answered with bytes in hexadecimal',
      changing('eth_call', () => `0x${'00'.repeat(100_000)}`),
    ],
    [
      'no number',
      'eth_blockNumber was not answered with a number in hexadecimal',
      changing('eth_blockNumber', () => 12),
    ],
    [
      'a number that is too large',
      'eth_blockNumber was not answered with a number in hexadecimal',
      changing('eth_blockNumber', () => `0x${'f'.repeat(64)}`),
    ],
    [
      'a call that should have failed',
      'the verifier accepted a report without signatures',
      async (_method, params, next) => {
        const { data } = (params[0] ?? {}) as { data?: string }
        return data?.startsWith('0x3d3ac1b5') === true ? '0x' : next()
      },
    ],
    [
      'one that failed for another reason',
      /^the verifier 0x\w+ refused an empty report with an unknown error$/,
      async (_method, params, next) => {
        const { data } = (params[0] ?? {}) as { data?: string }
        if (data?.startsWith('0x3d3ac1b5') === true)
          throw { code: 3, message: 'execution reverted', data: '0xef67f5d8' }
        return next()
      },
    ],
    [
      'one whose reason is not passed on',
      /\(and not by an error of the verifier, as it should\)$/,
      async (_method, params, next) => {
        const { data } = (params[0] ?? {}) as { data?: string }
        if (data?.startsWith('0x3d3ac1b5') === true)
          throw { code: -32000, message: 'execution reverted' }
        return next()
      },
    ],
  ])('%s', async (_name, message, answer) => {
    const { source } = await createSource(chain, answer)
    expect(await failureOf(source(digest))).toMatch(message)
  })

  const zero = `0x${'0'.repeat(40)}`
  const many = Array.from({ length: 40 }, (_, at) => `0x${word(`${at + 1}`).slice(24)}`)
  test.each([
    [
      'one is twice',
      /signers\[6\] must not be a duplicate/,
      [...addresses.slice(0, 6), addresses[0]],
    ],
    ['one is zero', /signers\[6\] must not be zero/, [...addresses.slice(0, 6), zero]],
    ['too few', /must be more than 3 f: 6 are too few/, addresses.slice(0, 6)],
    ['too many', /must be at most 31, not 40/, many],
  ])('signers that break a rule: %s', async (_name, message, list) => {
    let isLying = true
    const { source } = await createSource(
      chain,
      changingLogs(log => (isLying ? { ...log, data: encode(list as string[], 2) } : log)),
    )
    expect(await failureOf(source(digest))).toMatch(message)
    isLying = false
    expect(await source(digest)).toEqual(setOf(digest))
  })

  test('logs in another order than that of the chain', async () => {
    const first = { data: encode(addresses.slice(5, 12), 2), logIndex: '0x0' }
    const { source } = await createSource(
      chain,
      changing('eth_getLogs', logs => [
        { ...(logs as TestLog[])[0], logIndex: '0x1' },
        { ...(logs as TestLog[])[0], ...first },
      ]),
    )
    expect(await source(digest)).toEqual(setOf(digest))
  })

  test('signers of its own, where another node has those of the chain', async () => {
    const lie = changingLogs(log => ({ ...log, data: encode(addresses.slice(5, 12), 2) }))
    const [honest, lying] = [await chain.startNode(), await chain.startNode(lie)]
    const sourceOf = (...urls: readonly string[]) =>
      onchainSigners({ client: urls.map(connectViem), verifier: chain.proxy, maxAge: Infinity })
    expect(await failureOf(sourceOf(honest.url, lying.url)(digest))).toBe(
      'the clients differ in their answers',
    )
    expect(await sourceOf(honest.url, honest.url)(digest)).toEqual(setOf(digest))
  })
})

describe('a configuration is asked for again', () => {
  const lookups = (asked: readonly string[]): number =>
    asked.filter(method => method === 'eth_blockNumber').length
  const hour = 3_600_000
  const useClock = (): void =>
    void jest.useFakeTimers({
      doNotFake: ['setTimeout', 'setImmediate', 'queueMicrotask', 'nextTick'],
    })

  test('after an hour, with the first report of that time', async () => {
    const digest = digestOf(10)
    await chain.setConfig(setOf(digest))
    useClock()
    jest.setSystemTime(TIME * 1000)
    const { source, node } = await createSource(chain, undefined, { maxAge: hour })
    const reportAt = (seconds: number) =>
      verifyReport(makeReport({ digest: digest as Hex, time: TIME + seconds }).fullReport, {
        signers: source,
      })
    await reportAt(0)
    jest.advanceTimersByTime(hour - 1000)
    await reportAt(3599)
    expect(lookups(node.asked)).toBe(1)
    jest.advanceTimersByTime(1000)
    await chain.setActive(digest, false)
    // One of before as well: whoever has its keys can set the time back.
    await expect(reportAt(3599)).rejects.toMatchObject({ reason: 'unknown-digest' })
    await expect(reportAt(3601)).rejects.toMatchObject({ reason: 'unknown-digest' })
  })

  test('at once where maxAge is a second, and no report is rejected meanwhile', async () => {
    useClock()
    jest.setSystemTime(TIME * 1000)
    const { source } = await createSource(chain, undefined, { maxAge: 1000 })
    for (let seconds = 0; seconds < 12; seconds++) {
      const { fullReport } = makeReport({ digest: digest as Hex, time: TIME + seconds })
      await verifyReport(fullReport, { signers: source })
      jest.advanceTimersByTime(1000)
    }
  })

  test('never where maxAge is longer than times can be', async () => {
    const { source } = await createSource(chain, undefined, { maxAge: 3e12 })
    expect(await source(digest)).toEqual(setOf(digest))
  })

  test('where the reports’ clock is ahead', async () => {
    useClock()
    jest.setSystemTime(TIME * 1000)
    const { source } = await createSource(chain, undefined, { maxAge: hour })
    expect(await source(digest)).toEqual({ ...setOf(digest), activeUntil: TIME + 3600 })
    jest.advanceTimersByTime(hour / 2 - 1000)
    expect(await source(digest)).toEqual({ ...setOf(digest), activeUntil: TIME + 3600 })
    jest.advanceTimersByTime(1000)
    expect(await source(digest)).toEqual({ ...setOf(digest), activeUntil: TIME + 5400 })
  })

  test('and the last answer is used for a day where that fails', async () => {
    useClock()
    jest.setSystemTime(TIME * 1000)
    let isAway = false
    const { source } = await createSource(
      chain,
      (_method, _params, next) => {
        if (isAway) throw 503
        return next()
      },
      { maxAge: hour },
    )
    await source(digest)
    isAway = true
    jest.advanceTimersByTime(23 * hour)
    expect(await source(digest)).toEqual({ ...setOf(digest), activeUntil: TIME + 23.5 * 3600 })
    jest.advanceTimersByTime(hour)
    expect(await failureOf(source(digest))).toMatch(/^eth_/)
    isAway = false
    expect(await source(digest)).toMatchObject({ f: 2 })
  })

  test('by one request, whoever asks', async () => {
    const { source, node } = await createSource(chain)
    await Promise.all([
      source(digest),
      source(digest.toUpperCase().replace('X', 'x')),
      source(digest),
    ])
    expect(lookups(node.asked)).toBe(1)
    await source(digest)
    expect(lookups(node.asked)).toBe(1)
  })
})

test.each<readonly [string, unknown]>([
  [
    'client must be a client of viem, a provider of ethers with the method send, or one by EIP-1193, not undefined',
    { client: undefined },
  ],
  ['client[1] must be a client of viem', { client: [{ send: () => undefined }, {}] }],
  ['client must not be an empty list', { client: [] }],
  ['verifier is required', { verifier: undefined }],
  ['verifier must be 0x and 40 hexadecimal digits', { verifier: '0x12' }],
  ['fromBlock must be at least 0', { fromBlock: -1n }],
  ['fromBlock must be a whole number', { fromBlock: 1.5 }],
  ['maxAge must be at least 1000', { maxAge: 1 }],
  ['timeout must be a number', { timeout: '1' }],
  ["unknown option 'cache' of onchainSigners", { cache: true }],
])('%s', (message, options) => {
  const right = { client: { send: async () => undefined }, verifier: `0x${'ab'.repeat(20)}` }
  const given = { ...right, ...(options as object) } as OnchainSignersOptions
  expect(() => onchainSigners(given)).toThrow(
    expect.objectContaining({ code: 'VALIDATION', message: expect.stringContaining(message) }),
  )
})

test('what a client says is short, on one line, and without URLs', async () => {
  const cause = {
    reason: 'bad response',
    error: { message: 'fetch of wss://me:secret-key@node/x failed' },
  }
  const client = {
    send: () =>
      Promise.reject(
        Object.assign(new Error('at https://node/v2/secret-key\nand more'), { cause }),
      ),
  }
  const source = onchainSigners({ client, verifier: chain.proxy })
  expect(await failureOf(source(digest))).toBe(
    'eth_call failed: at [URL]: bad response: fetch of [URL] failed',
  )
})

test('configDigest must be 0x and 64 hexadecimal digits', async () => {
  const { source } = await createSource(chain)
  await expect(source('0x12')).rejects.toThrow('configDigest must be 0x and 64 hexadecimal digits')
})
