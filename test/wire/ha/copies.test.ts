import { beforeEach, describe, expect, test } from '@jest/globals'
import { fastPath } from '../../../client/fast/index.js'
import { type Connect, connectSocket } from '../../../client/transport/socket.js'
import { hurry } from '../../support/hurry.js'
import { pause, until } from '../../support/waiting.js'
import { ethUsd, open, start } from '../../support/wire/ha.js'

beforeEach(() => hurry())

describe('copies', () => {
  test('that are doubled, late and out of order are delivered once, and late is no copy', async () => {
    const engine = await start()
    const [first, second] = engine.origins
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    first?.duplicate(0.5)
    first?.reorder(4)
    second?.drop(0.7)
    second?.delay(40)
    const published = Array.from(
      { length: 200 },
      () => engine.publish(ethUsd).observationsTimestamp,
    )
    first?.reorder(0)
    await until(() => seen.times.length === published.length)
    await pause(100)
    expect([...seen.times].sort()).toEqual(published)
    const { accepted, deduplicated, totalReceived, outOfOrder, malformed } = stream.getMetrics()
    expect({ accepted, malformed }).toEqual({ accepted: 200, malformed: 0 })
    expect(totalReceived).toBe(accepted + deduplicated)
    expect(outOfOrder).toBeGreaterThan(0)
  })

  test('at 100, 102, 101, 103 are all delivered once', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    for (const time of [100, 102, 101, 103])
      engine.publish(ethUsd, { validFromTimestamp: time, observationsTimestamp: time })
    await until(() => stream.getMetrics().totalReceived === 8)
    expect(seen.times).toEqual([100, 102, 101, 103])
    expect(stream.getMetrics()).toMatchObject({ accepted: 4, deduplicated: 4, outOfOrder: 1 })
  })

  test('whose values differ raise a conflict', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    const time = engine.publish(ethUsd, { price: 10n, bid: 9n, ask: 11n }).observationsTimestamp
    engine.publish(ethUsd, {
      validFromTimestamp: time,
      observationsTimestamp: time,
      price: 20n,
      bid: 19n,
      ask: 21n,
    })
    await until(() => stream.getMetrics().totalReceived === 4)
    expect(seen.times).toEqual([time])
    expect(seen.conflicts.length).toBeGreaterThan(0)
    expect(seen.conflicts[0]?.first.decoded).toMatchObject({ price: 10n })
    expect(seen.conflicts[0]?.other.decoded).toMatchObject({ price: 20n })
  })

  test('with a far-future time mute nothing', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    engine.publish(ethUsd, {
      validFromTimestamp: 4_102_444_800_000,
      observationsTimestamp: 4_102_444_800_000,
    })
    for (let at = 0; at < 3; at++) engine.publish(ethUsd)
    await until(() => seen.times.length === 4)
  })

  test('that are corrupt are errors, and the other origin’s are delivered', async () => {
    const engine = await start()
    const { stream, seen } = open(engine)
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    engine.origins[0]?.corrupt(0.5)
    const published = Array.from(
      { length: 100 },
      () => engine.publish(ethUsd).observationsTimestamp,
    )
    await until(() => seen.times.length === 100)
    expect([...seen.times].sort()).toEqual(published)
    // Only a stack with verify notices a change within a signature.
    await until(() => stream.getMetrics().totalReceived + stream.getMetrics().malformed === 200)
    expect(stream.getMetrics().malformed).toBeGreaterThan(20)
  })
})

// Without the cache of duplicates nothing says which connection is ahead.
const testFast = fastPath === undefined ? test.skip : test
testFast(
  'a connection that is far ahead of the others lets them have their turn',
  async () => {
    const engine = await start()
    let rests = 0
    const connect: Connect = async (target, events) => {
      const socket = await connectSocket(target, events)
      return {
        ...socket,
        rest() {
          rests++
          socket.rest?.()
        },
      }
    }
    const { stream, seen } = open(engine, {}, { connect })
    await stream.connect()
    await until(() => stream.getMetrics().activeConnections === 2)
    const published = Array.from(
      { length: 2000 },
      () => engine.publish(ethUsd).observationsTimestamp,
    )
    await until(() => stream.getMetrics().totalReceived === 2 * published.length)
    expect(seen.times).toEqual(published)
    expect(seen.errors).toEqual([])
    // 3 MB have come: so often at most could one be ahead by its share, and twice it was surely.
    expect(rests).toBeGreaterThan(1)
    expect(rests).toBeLessThan(40)
  },
  60_000,
)
