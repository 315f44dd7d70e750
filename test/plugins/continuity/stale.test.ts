import { describe, expect, test } from '@jest/globals'
import type { Status } from '../../../client/contract/status.js'
import { feedA, feedB, range, stream, wait } from '../../support/plugins/continuity.js'

const stale: Status = { type: 'stale', feedIDs: [feedA], staleMs: 30_000 }

describe('a stale feed', () => {
  test('is asked for at once, and after 30 s, doubling to 300 s', async () => {
    const { publish, emitStatus, requests, reset, gaps, end } = stream()
    publish([100])
    await wait(30_000)
    emitStatus(stale)
    const opened = performance.now()
    await wait(2_000_000)
    const offsets = requests.map(({ at }) => (at - opened) / 1000)
    expect(offsets).toEqual([0, 30, 90, 210, 450, 750, 1050, 1350, 1650, 1950])
    expect([reset, gaps]).toEqual([[], []])
    end()
  })

  test.each([
    [5000, [0, 10, 20, 35, 75, 155, 315, 615, 915, 1215]],
    [60_000, [0, 60, 180, 420, 720, 1020]],
    [400_000, [0, 400, 800, 1200]],
  ])('is asked for after `staleAfter` first: %d ms', async (staleMs, expected) => {
    const { publish, emitStatus, requests, end } = stream()
    publish([100])
    await wait(staleMs)
    emitStatus({ ...stale, staleMs })
    const opened = performance.now()
    await wait(1_250_000)
    expect(requests.map(({ at }) => (at - opened) / 1000)).toEqual(expected)
    end()
  })

  test('whose reports a plugin refuses is no half-open connection', async () => {
    const all = stream()
    const { publish, emitStatus, reset, requests, end } = all
    publish([100])
    all.service.refuse = () => new Error('not verified')
    publish([101, 102], { live: false })
    await wait(30_000)
    emitStatus(stale)
    await wait(120_000)
    expect(requests.length).toBeGreaterThan(1)
    expect(reset).toEqual([])
    end()
  })

  test('is asked for as long while connections are opened anew', async () => {
    const { publish, connect, emitStatus, requests, end } = stream()
    publish([100])
    connect(true)
    await wait(8000)
    emitStatus(stale)
    const before = requests.length
    await wait(50_000)
    for (let round = 0; round < 3; round++) {
      connect(false)
      connect(true)
      await wait(300_000)
    }
    expect(requests.length - before).toBeGreaterThanOrEqual(6)
    expect(requests.length - before).toBeLessThanOrEqual(10)
    end()
  })

  test('of a connection that stays mute gets all, some minutes late', async () => {
    const { publish, connect, emitStatus, times, requests, reset, end } = stream()
    publish([100])
    await wait(30_000)
    emitStatus(stale)
    let resets = 0
    for (let time = 101; time <= 400; time++) {
      publish([time], { live: false })
      await wait(10_000)
      if (reset.length === resets) continue
      resets = reset.length
      connect(false)
      connect(true)
    }
    await wait(600_000)
    expect(times()).toEqual(range(100, 400))
    expect(resets).toBeGreaterThan(3)
    expect(requests.at(-1)?.from).toBe(401)
    end()
  })

  test('is asked for no longer once it has a newer report', async () => {
    const { publish, emitStatus, requests, end } = stream()
    publish([100])
    await wait(30_000)
    emitStatus(stale)
    await wait(40_000)
    publish([101])
    await wait(600_000)
    expect(requests).toHaveLength(2)
    end()
  })

  test('of which the service has news gets these, and its connections are opened anew', async () => {
    const { publish, emitStatus, backfilled, reset, end } = stream()
    for (const feedID of [feedA, feedB]) publish([100], { feedID })
    await wait(30_000)
    publish([101, 102], { live: false })
    emitStatus(stale)
    await wait(60_000)
    expect(backfilled()).toEqual([101, 102])
    expect(reset).toEqual([feedA])
    end()
  })

  test('of which the service has news at a later request gets these, too', async () => {
    const { publish, emitStatus, backfilled, reset, end } = stream()
    publish([100])
    await wait(30_000)
    emitStatus(stale)
    await wait(40_000)
    publish([101], { live: false })
    await wait(60_000)
    expect(backfilled()).toEqual([101])
    expect(reset).toEqual([feedA])
    end()
  })

  test('keeps its connections where the news is of the last five seconds', async () => {
    const { publish, emitStatus, backfilled, reset, end } = stream()
    const present = Math.floor(Date.now() / 1000)
    publish([present - 30])
    publish([present - 3], { live: false })
    emitStatus(stale)
    await wait(20_000)
    expect(backfilled()).toEqual([present - 3])
    expect(reset).toEqual([])
    end()
  })

  test('keeps its connections where what is missing was published before its newest report', async () => {
    const { publish, emitStatus, backfilled, reset, end } = stream()
    publish([100])
    publish([101], { live: false })
    publish([102])
    await wait(5000)
    emitStatus(stale)
    await wait(20_000)
    expect(backfilled()).toEqual([101])
    expect(reset).toEqual([])
    end()
  })

  test('of many that are stale has the connections opened anew once', async () => {
    const { publish, emitStatus, reset, end } = stream()
    const feedIDs = [feedA, feedB]
    for (const feedID of feedIDs) publish([100], { feedID })
    await wait(30_000)
    for (const feedID of feedIDs) publish([101], { feedID, live: false })
    emitStatus({ ...stale, feedIDs })
    await wait(1000)
    expect(reset).toHaveLength(1)
    await wait(60_000)
    end()
  })
})
