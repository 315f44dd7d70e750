import { expect, test } from '@jest/globals'
import { AbiCoder, recoverAddress as ethersRecover, keccak256 } from 'ethers'
import fc from 'fast-check'
import { recoverAddress as viemRecover } from 'viem'
import { type DataEngineOptions, type PublishedReport, startDataEngine } from '../index.js'
import { send } from './support/signed.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const inMs = `0x1003${'5a'.repeat(30)}`
const rwa = `0x0008${'5b'.repeat(30)}`
const coder = AbiCoder.defaultAbiCoder()
const outer = ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32']

function blobOf(fullReport: string): string {
  return coder.decode(outer, fullReport)[1]
}

function priceOf({ fullReport }: PublishedReport): { price: bigint; bid: bigint; ask: bigint } {
  const types = [
    'bytes32',
    'uint64',
    'uint64',
    'uint192',
    'uint192',
    'uint64',
    'int192',
    'int192',
    'int192',
  ]
  const [, , , , , , price, bid, ask] = coder.decode(types, blobOf(fullReport))
  return { price, bid, ask }
}

/** A quiet engine with a clock of its own. */
function quiet(options: DataEngineOptions = {}) {
  return startDataEngine({
    feeds: [ethUsd],
    intervalMs: 0,
    history: 0,
    now: () => 1_700_000_000_400,
    ...options,
  })
}

test('the default feeds are of every version V2 to V14, and two are in milliseconds', async () => {
  await using engine = await startDataEngine({ intervalMs: 0, history: 1 })
  const prefixes = engine.feeds.map(id => id.slice(0, 6))
  expect(new Set(prefixes.filter(prefix => prefix.startsWith('0x0')))).toEqual(
    new Set([
      '0x0002',
      '0x0003',
      '0x0004',
      '0x0005',
      '0x0006',
      '0x0007',
      '0x0008',
      '0x0009',
      '0x000a',
      '0x000b',
      '0x000c',
      '0x000d',
      '0x000e',
    ]),
  )
  expect(prefixes.filter(prefix => prefix.startsWith('0x1'))).toHaveLength(2)
  expect(engine.feeds[0]).toBe(ethUsd)
  expect(engine.ledger().map(entry => entry.feedID)).toEqual(engine.feeds)
})

test('each report is signed by f + 1 different signers of the network, who take turns', async () => {
  await using engine = await quiet({ feeds: [ethUsd, inMs], f: 2 })
  const { network } = engine
  expect(network.signers).toHaveLength(7)
  expect(new Set(network.signers).size).toBe(7)
  const seen = new Set<string>()
  for (let i = 0; i < 14; i++) {
    const { fullReport } = engine.publish(i % 2 ? ethUsd : inMs)
    const [context, blob, rs, ss, vs] = coder.decode(outer, fullReport).toArray(true)
    expect(context[0]).toBe(network.configDigest)
    const hash = keccak256(
      `0x${keccak256(blob).slice(2)}${context.map((word: string) => word.slice(2)).join('')}`,
    )
    expect(rs).toHaveLength(3)
    expect(ss).toHaveLength(3)
    expect(vs.slice(2 + 2 * 3)).toBe('00'.repeat(29))
    const recovered: string[] = []
    for (const [at, r] of rs.entries()) {
      const yParity = Number.parseInt(vs.slice(2 + 2 * at, 4 + 2 * at), 16)
      expect([0, 1]).toContain(yParity)
      const byEthers = ethersRecover(hash, { r, s: ss[at], v: 27 + yParity }).toLowerCase()
      const byViem = await viemRecover({
        hash: hash as `0x${string}`,
        signature: { r, s: ss[at], yParity },
      })
      expect(byViem.toLowerCase()).toBe(byEthers)
      recovered.push(byEthers)
      seen.add(byEthers)
    }
    expect(new Set(recovered).size).toBe(3)
    for (const signer of recovered) expect(network.signers).toContain(signer)
  }
  expect(seen.size).toBe(7)
})

test('the context holds the sequence number as epoch and round, and the extra hash of a report network', async () => {
  await using engine = await quiet()
  for (let i = 0; i < 258; i++) engine.publish(ethUsd)
  const last = engine.ledger().at(-1) as PublishedReport
  expect(last.seqNr).toBe(258)
  const [, epochAndRound, extraHash] = coder.decode(outer, last.fullReport)[0]
  expect(epochAndRound).toBe(`0x${'00'.repeat(27)}00000001${'02'}`)
  expect(BigInt(extraHash) & 0xffff_ffffn).toBe(1n)
  expect(BigInt(extraHash) >> 32n).toBeGreaterThan(0n)
})

test('every report is valid from where the one before ended, whatever the clock does', async () => {
  const step = fc.record({
    feedID: fc.constantFrom(ethUsd, inMs),
    waitMs: fc.integer({ min: -2_000, max: 5_000 }),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 2, maxLength: 15 }),
      fc.nat(5),
      async (steps, history) => {
        let clock = 1_700_000_000_000
        await using engine = await quiet({ feeds: [ethUsd, inMs], history, now: () => clock })
        for (const { feedID, waitMs } of steps) {
          clock += waitMs
          engine.publish(feedID)
        }
        for (const feedID of [ethUsd, inMs]) {
          const chain = engine.ledger().filter(entry => entry.feedID === feedID)
          const unitMs = feedID === ethUsd ? 1000 : 1
          for (const [i, entry] of chain.entries()) {
            const before = chain[i - 1]
            const from =
              before === undefined ? entry.observationsTimestamp : before.observationsTimestamp + 1
            expect(entry.validFromTimestamp).toBe(from)
            expect(entry.observationsTimestamp).toBeGreaterThanOrEqual(from)
            expect(entry.observationsTimestamp).toBe(
              Math.max(from, Math.floor(entry.publishedAt / unitMs)),
            )
            // The feeds of a network share its sequence number.
            expect(entry.seqNr).toBeGreaterThan(before?.seqNr ?? 0)
            const [, validFrom, observations] = coder.decode(
              ['bytes32', 'uint64', 'uint64'],
              blobOf(entry.fullReport),
            )
            expect([Number(validFrom), Number(observations)]).toEqual([
              entry.validFromTimestamp,
              entry.observationsTimestamp,
            ])
          }
        }
      },
    ),
    { numRuns: 20 },
  )
})

test('equal seeds give equal bytes, and another seed gives others', async () => {
  const run = async (seed: number, feeds: string[]) => {
    let clock = 1_700_000_000_000
    await using engine = await quiet({ seed, feeds, history: 2, now: () => clock })
    for (let i = 0; i < 3; i++) {
      clock += 1_500
      for (const feedID of feeds) engine.publish(feedID)
    }
    return {
      network: engine.network,
      reports: engine.ledger().filter(entry => entry.feedID === ethUsd),
    }
  }
  const one = await run(7, [ethUsd])
  expect(await run(7, [ethUsd])).toEqual(one)
  // Another feed takes numbers of the same network, and changes nothing else.
  const blobs = ({ reports }: Awaited<ReturnType<typeof run>>) =>
    reports.map(({ fullReport }) => blobOf(fullReport))
  expect(blobs(await run(7, [inMs, ethUsd]))).toEqual(blobs(one))
  const other = await run(8, [ethUsd])
  expect(other.network.configDigest).not.toBe(one.network.configDigest)
  expect(other.network.signers.some(signer => one.network.signers.includes(signer))).toBe(false)
  expect(other.reports.map(priceOf)).not.toEqual(one.reports.map(priceOf))
})

test('a price walks in small steps with the bid below and the ask above it, from the start value if one is given', async () => {
  const tiny = `0x0003${'5c'.repeat(30)}`
  const tiniest = `0x0003${'5d'.repeat(30)}`
  await using engine = await quiet({
    feeds: [
      ethUsd,
      { feedID: tiny, fields: { price: 5n, bid: 4n, ask: 7n } },
      { feedID: tiniest, fields: { price: 1 } },
    ],
    history: 100,
  })
  for (const feedID of [ethUsd, tiny, tiniest]) {
    const prices = engine
      .ledger()
      .filter(entry => entry.feedID === feedID)
      .map(priceOf)
    expect(prices).toHaveLength(100)
    for (const { price, bid, ask } of prices) {
      expect(bid).toBeLessThan(price)
      expect(price).toBeLessThan(ask)
    }
    if (feedID === tiny) {
      expect(prices[0]).toEqual({ price: 5n, bid: 4n, ask: 7n })
    } else if (feedID === ethUsd) {
      expect(new Set(prices.map(({ price }) => price)).size).toBeGreaterThan(98)
      for (const [i, { price }] of prices.slice(1).entries()) {
        const change = Math.abs(Number(price) / Number(prices[i]?.price) - 1)
        expect(change).toBeLessThan(0.001)
      }
    }
  }
})

test('nanosecond times are exact and just before the report, and a report expires after thirty days', async () => {
  await using engine = await quiet({ feeds: [rwa, inMs] })
  const head = ['bytes32', 'uint32', 'uint32', 'uint192', 'uint192', 'uint32']
  const { fullReport, observationsTimestamp } = engine.publish(rwa)
  const [, , , , , expiresAt, lastUpdate, , marketStatus] = coder.decode(
    [...head, 'uint64', 'int192', 'uint32'],
    blobOf(fullReport),
  )
  const ageNs = 1_700_000_000_400_000_000n - lastUpdate
  expect(ageNs).toBeGreaterThanOrEqual(0n)
  expect(ageNs).toBeLessThan(1_000_000_000n)
  expect(lastUpdate % 1_000n).not.toBe(0n)
  expect(marketStatus).toBe(2n)
  expect(Number(expiresAt)).toBe(observationsTimestamp + 30 * 86_400)
  const ms = engine.publish(inMs)
  const [, , , , , expiresAtMs] = coder.decode(
    ['bytes32', 'uint64', 'uint64', 'uint192', 'uint192', 'uint64'],
    blobOf(ms.fullReport),
  )
  expect(Number(expiresAtMs)).toBe(ms.observationsTimestamp + 30 * 86_400_000)
})

test('a field is overridden in one report and walks on as if it had not been', async () => {
  const before = await (async () => {
    await using engine = await quiet()
    return [engine.publish(ethUsd), engine.publish(ethUsd), engine.publish(ethUsd)].map(priceOf)
  })()
  await using engine = await quiet()
  engine.publish(ethUsd)
  expect(
    priceOf(
      engine.publish(ethUsd.toUpperCase().replace('0X', '0x'), { price: -3, bid: 2n ** 100n }),
    ),
  ).toEqual({
    ...before[1],
    price: -3n,
    bid: 2n ** 100n,
  })
  expect(priceOf(engine.publish(ethUsd))).toEqual(before[2])
})

test('an override that the version does not take is an error, and publishes nothing', async () => {
  await using engine = await quiet()
  expect(() => engine.publish(ethUsd, { marketStatus: 1 })).toThrow(
    /^V3 \(0x0003.*\) has no field "marketStatus"; it has .*price, bid, ask$/,
  )
  expect(() => engine.publish(ethUsd, { feedId: ethUsd })).toThrow('has no field "feedId"')
  expect(() => engine.publish(ethUsd, { expiresAt: 2 ** 32 })).toThrow(
    'expiresAt: uint32 takes 0 to 4294967295, got 4294967296',
  )
  expect(() => engine.publish(ethUsd, { price: 'high' })).toThrow('price: int192 takes a bigint')
  expect(() => engine.publish(rwa)).toThrow(`there is no feed ${rwa}`)
  expect(engine.ledger()).toEqual([])
  expect(engine.publish(ethUsd).seqNr).toBe(1)
})

test('the chain goes on from overridden times, but not from one far in the future or in the past', async () => {
  await using engine = await quiet()
  const now = 1_700_000_000
  const spanOf = ({ validFromTimestamp, observationsTimestamp }: PublishedReport) => [
    validFromTimestamp,
    observationsTimestamp,
  ]
  expect(spanOf(engine.publish(ethUsd))).toEqual([now, now])
  expect(
    spanOf(engine.publish(ethUsd, { validFromTimestamp: now + 6, observationsTimestamp: now + 9 })),
  ).toEqual([now + 6, now + 9])
  expect(spanOf(engine.publish(ethUsd, { observationsTimestamp: now + 3 }))).toEqual([
    now + 3,
    now + 3,
  ])
  expect(spanOf(engine.publish(ethUsd, { observationsTimestamp: 2 ** 32 - 1 }))).toEqual([
    now + 10,
    2 ** 32 - 1,
  ])
  expect(spanOf(engine.publish(ethUsd))).toEqual([now + 10, now + 10])
})

test('automatic publishing keeps each interval, stops at pause and goes on at resume', async () => {
  await using engine = await startDataEngine({
    feeds: [
      { feedID: inMs, intervalMs: 10 },
      { feedID: ethUsd, intervalMs: 50 },
      { feedID: rwa, intervalMs: 0 },
    ],
    runAhead: true,
    history: 0,
    clock: 'manual',
  })
  const counts = () =>
    [inMs, ethUsd, rwa].map(
      feedID => engine.ledger().filter(entry => entry.feedID === feedID).length,
    )
  await engine.advance(200)
  expect(counts()).toEqual([20, 4, 0])
  engine.pause()
  await engine.advance(120)
  expect(counts()).toEqual([20, 4, 0])
  engine.resume()
  engine.resume()
  await engine.advance(350)
  expect(counts()).toEqual([55, 11, 0])
  const chain = engine.ledger().filter(entry => entry.feedID === inMs)
  for (const [i, entry] of chain.slice(1).entries()) {
    expect(entry.validFromTimestamp).toBe((chain[i]?.observationsTimestamp ?? 0) + 1)
  }
})

test('a history is there at the start, one interval apart and ending before now', async () => {
  await using engine = await quiet({
    feeds: [{ feedID: ethUsd, intervalMs: 3_000 }, inMs],
    history: 4,
  })
  const seconds = engine.ledger().filter(entry => entry.feedID === ethUsd)
  expect(seconds.map(entry => entry.observationsTimestamp - 1_700_000_000)).toEqual([
    -12, -9, -6, -3,
  ])
  const ms = engine.ledger().filter(entry => entry.feedID === inMs)
  expect(ms.map(entry => entry.observationsTimestamp - 1_700_000_000_400)).toEqual([
    -4000, -3000, -2000, -1000,
  ])
})

test('REST answers with a report when it is stored, which may be later', async () => {
  let clock = 1_700_000_000_400
  await using engine = await quiet({ now: () => clock })
  const page = async (of: string, from: string): Promise<number[]> => {
    const path = `/api/v1/reports${of}?feedID=${ethUsd}&${from}`
    const { json } = await send(engine, path, { at: clock })
    const { reports = json.report === undefined ? [] : [json.report] } = json
    return reports.map((report: PublishedReport) => report.observationsTimestamp - 1_700_000_000)
  }
  const both = async () => [
    await page('/page', 'startTimestamp=0&limit=2'),
    await page('/latest', ''),
    await page('', 'timestamp=1700000001'),
  ]
  for (const storedAfterMs of [0, 3000, 0, 3000]) engine.publish(ethUsd, {}, { storedAfterMs })
  expect(await both()).toEqual([[0, 2], [2], []])
  clock += 2999
  expect(await both()).toEqual([[0, 2], [2], []])
  clock++
  expect(await both()).toEqual([[0, 1], [3], [1]])
  expect(() => engine.publish(ethUsd, {}, { storedAfterMs: -1 })).toThrow('storedAfterMs must be')
  expect(engine.ledger()).toHaveLength(4)
})

test('a report is signed by the signers that it is to have, among those so far', async () => {
  await using engine = await quiet()
  const first = engine.network
  const second = engine.rotate()
  const digests = [first, second, undefined, first].map(network => {
    const { fullReport } = engine.publish(ethUsd, {}, network === undefined ? {} : { network })
    return coder.decode(outer, fullReport)[0][0]
  })
  const [one, two] = [first.configDigest, second.configDigest]
  expect(digests).toEqual([one, two, two, one])
  const network = { ...first, configDigest: '0x00' }
  expect(() => engine.publish(ethUsd, {}, { network })).toThrow('no network')
})

test('the ledger keeps as many reports of each feed as it is told, frozen and in order', async () => {
  await using engine = await quiet({ feeds: [ethUsd, inMs], retain: 3 })
  const all = [1, 2, 3, 4, 5].flatMap(() => [engine.publish(ethUsd), engine.publish(inMs)])
  expect(engine.ledger()).toEqual(all.slice(-6))
  const page = await send(engine, `/api/v1/reports/page?feedID=${ethUsd}&startTimestamp=0`, {
    at: 1_700_000_000_400,
  })
  expect(page.json.reports).toHaveLength(3)
  expect(Object.isFrozen(engine.ledger()[0])).toBe(true)
  engine.ledger().length = 0
  expect(engine.ledger()).toHaveLength(6)
})

test('options that can not be met are errors that say so', async () => {
  const start = (options: DataEngineOptions) => startDataEngine({ history: 0, ...options })
  await expect(start({ feeds: ['0x0003'] })).rejects.toThrow('a feed id is 0x and 64 hex digits')
  await expect(start({ feeds: [`0x002a${'00'.repeat(30)}`] })).rejects.toThrow(
    "its version isn't one of 2 to 14",
  )
  await expect(start({ feeds: [`0x2003${'00'.repeat(30)}`] })).rejects.toThrow(
    'starts with neither 0 nor 1',
  )
  await expect(start({ feeds: [ethUsd, ethUsd] })).rejects.toThrow('is given twice')
  await expect(start({ feeds: [{ feedID: ethUsd, fields: { rate: 1 } }] })).rejects.toThrow(
    'has no field "rate"',
  )
  await expect(start({ feeds: [{ feedID: ethUsd, fields: { expiresAt: 1 } }] })).rejects.toThrow(
    'comes from the clock',
  )
  await expect(start({ nodes: 6, f: 2 })).rejects.toThrow('nodes must be at least 7, not 6')
  await expect(start({ f: 0 })).rejects.toThrow('f must be at least 1, not 0')
  await expect(start({ intervalMs: -1 })).rejects.toThrow('intervalMs')
  await expect(start({ apiKey: 'two words' })).rejects.toThrow('apiKey')
  await expect(start({ feeds: [ethUsd], replay: [] })).rejects.toThrow('exclude each other')
})

test('engines in one process share nothing', async () => {
  await using one = await quiet({ seed: 3 })
  await using two = await quiet({ seed: 3 })
  const first = one.publish(ethUsd)
  one.publish(ethUsd)
  one.fail({ status: 500, times: 5 })
  expect(two.ledger()).toEqual([])
  expect(two.publish(ethUsd)).toEqual(first)
  expect(two.endpoint).not.toBe(one.endpoint)
  expect((await fetch(two.endpoint)).status).toBe(405)
})

test('after close nothing is published and a second close is fine', async () => {
  const engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 5, runAhead: true })
  await Promise.all([engine.close(), engine.close()])
  await engine.close()
  const count = engine.ledger().length
  await new Promise(resolve => setTimeout(resolve, 50))
  engine.resume()
  await new Promise(resolve => setTimeout(resolve, 30))
  expect(engine.ledger()).toHaveLength(count)
  expect(() => engine.publish(ethUsd)).toThrow('closed')
  await expect(engine.start()).rejects.toThrow('closed')
})
