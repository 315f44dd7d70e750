import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { type Answer, type Chain, startChain } from '../../../support/ethereum/chain.js'
import { createSource, digestOf, failureOf, setOf } from '../../../support/ethereum/reading.js'
import { addresses, signers } from '../../../support/report/signed-reports.js'

interface Range {
  readonly from: number
  readonly to: number
}

/** The blocks of each request for logs. */
function watch(ranges: Range[], answer?: (range: Range) => void): Answer {
  return (method, params, next) => {
    if (method !== 'eth_getLogs') return next()
    const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string }
    const range = { from: Number(fromBlock), to: Number(toBlock) }
    ranges.push(range)
    answer?.(range)
    return next()
  }
}

const sizeOf = ({ from, to }: Range): number => to - from + 1

/** Errors with which nodes refuse a range, as found in their issues; each has its own. */
const refusals = [
  { code: -32602, message: 'range 1000000 exceeds limit of 10000' },
  { code: -32614, message: 'eth_getLogs is limited to a 10,000 range' },
  { code: -32005, message: 'block range too large, max range: 10000' },
  { code: -32600, message: 'You can make eth_getLogs requests with up to a 500 block range.' },
  413,
] as const

describe('a log in the block that the contract names', () => {
  test('is read from that block alone', async () => {
    const chain = await startChain()
    await chain.mine(1000)
    await chain.setConfig(setOf(digestOf(1)))
    await chain.mine(1000)
    const ranges: Range[] = []
    const { source } = await createSource(chain, watch(ranges), { fromBlock: 2000n })
    expect(await source(digestOf(1))).toEqual(setOf(digestOf(1)))
    expect(ranges).toEqual([{ from: 1003, to: 1003 }])
    chain.close()
  })
})

describe('on a chain with block numbers of its own', () => {
  /** Without this, the search by the parent’s numbers finds it at once. */
  const withoutParent: Answer = async (method, _params, next) => {
    const answer = await next()
    if (method !== 'eth_getBlockByNumber') return answer
    return { number: (answer as { number: string }).number }
  }
  const both =
    (one: Answer, other: Answer): Answer =>
    (method, params, next) =>
      one(method, params, async () => other(method, params, next))

  let chain: Chain
  beforeAll(async () => {
    chain = await startChain({ parent: true })
    await chain.mine(100_000)
    await chain.setConfig(setOf(digestOf(1)))
    await chain.mine(150_000)
    await chain.setConfig(setOf(digestOf(2)))
    await chain.updateConfig(digestOf(2), signers, { signers: addresses.slice(2, 9), f: 2 })
    await chain.mine(30_000)
  })
  afterAll(() => chain.close())

  test('the blocks of the parent’s are found by halving', async () => {
    const ranges: Range[] = []
    const { source, node } = await createSource(chain, watch(ranges))
    expect(await source(digestOf(1))).toEqual(setOf(digestOf(1)))
    expect(ranges).toHaveLength(1)
    expect(sizeOf(ranges[0] as Range)).toBe(48)
    const asked = node.asked.filter(method => method === 'eth_getBlockByNumber').length
    expect(asked).toBeLessThan(45)
    expect(await source(digestOf(2))).toMatchObject({ signers: addresses.slice(2, 9) })
  })

  test.each(refusals)('pages are as large as the node accepts: %p', async refusal => {
    const ranges: Range[] = []
    const accepted: Range[] = []
    const limited = watch(ranges, range => {
      if (sizeOf(range) > 5000) throw refusal
      accepted.push(range)
    })
    const { source } = await createSource(chain, both(withoutParent, limited))
    expect(await source(digestOf(1))).toEqual(setOf(digestOf(1)))
    // Five thousand at a time would be 36 pages.
    expect(accepted.length).toBeLessThan(45)
    expect(ranges.length - accepted.length).toBeLessThan(10)
    // No block is left out, from the newest to that of the log.
    expect(accepted[0]?.to).toBe(280_005)
    const ends = accepted.slice(0, -1).map(({ from }) => from - 1)
    expect(accepted.slice(1).map(({ to }) => to)).toEqual(ends)
    // What was learnt is used for the next search.
    ranges.length = 0
    await source(digestOf(2))
    expect(ranges.filter(range => sizeOf(range) > 5000)).toHaveLength(0)
  })

  test('the newest change counts', async () => {
    const { source } = await createSource(chain, withoutParent)
    expect(await source(digestOf(2))).toEqual(
      setOf(digestOf(2), { signers: addresses.slice(2, 9), f: 2 }),
    )
  })

  test('a node that limits ranges below what it accepted before is obeyed', async () => {
    let limit = 10_000
    const ranges: Range[] = []
    const limited = watch(ranges, range => {
      if (sizeOf(range) > limit) throw { code: -32005, message: 'limit exceeded' }
      if (ranges.length > 12) limit = 3000
    })
    const { source } = await createSource(chain, both(withoutParent, limited))
    expect(await source(digestOf(1))).toEqual(setOf(digestOf(1)))
  })

  test('one that refuses every range is an error', async () => {
    const refusing = watch([], () => {
      throw { code: -32601, message: 'eth_getLogs is not available' }
    })
    const { source } = await createSource(chain, both(withoutParent, refusing))
    expect(await failureOf(source(digestOf(1)))).toMatch(/eth_getLogs .*is not available/)
  })

  test('one that fails in the middle goes on there when it is asked again', async () => {
    const ranges: Range[] = []
    let isAway = false
    const failing: Answer = (method, params, next) => {
      if (isAway) throw 503
      return watch(ranges, range => {
        if (sizeOf(range) > 8000) throw { code: -32005, message: 'limit exceeded' }
        isAway = ranges.length === 12
      })(method, params, next)
    }
    const { source } = await createSource(chain, both(withoutParent, failing))
    expect(await failureOf(source(digestOf(1)))).toMatch(/^eth_/)
    const reached = ranges.at(-1)?.from as number
    isAway = false
    ranges.length = 100
    expect(await source(digestOf(1))).toEqual(setOf(digestOf(1)))
    expect(Math.max(...ranges.slice(100).map(({ to }) => to))).toBeLessThan(reached)
  })

  test('a search that nobody waits for ends, and goes on when somebody does', async () => {
    jest.useFakeTimers({ doNotFake: ['setTimeout', 'setImmediate', 'queueMicrotask', 'nextTick'] })
    try {
      const ranges: Range[] = []
      const slow = watch(ranges, range => {
        if (sizeOf(range) > 1000) throw { code: -32005, message: 'limit exceeded' }
        jest.advanceTimersByTime(100)
      })
      const { source } = await createSource(chain, both(withoutParent, slow))
      const reading = source(digestOf(1))
      expect(await failureOf(reading)).toMatch(/^the blocks from 0 to \d+ are still to be read$/)
      const pages = ranges.length
      expect(pages).toBeLessThan(170)
      const { from } = ranges.at(-1) as Range
      ranges.length = 0
      expect(await source(digestOf(1))).toEqual(setOf(digestOf(1)))
      expect(ranges[0]?.to).toBe(from - 1)
    } finally {
      jest.useRealTimers()
    }
  })

  test('nothing is found before fromBlock, and the error says so', async () => {
    const { source } = await createSource(chain, withoutParent, { fromBlock: 200_000 })
    expect(await failureOf(source(digestOf(1)))).toMatch(
      /^the contract 0x\w+ has the configuration, but no log of it from block 200000 on/,
    )
  })
})
