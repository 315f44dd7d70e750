import { afterEach, expect, test } from '@jest/globals'
import { pause, until } from '@sluice/test-support/waiting.js'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '../index.js'

const inSeconds = `0x0003${'5a'.repeat(30)}`
const inMs = `0x1003${'5a'.repeat(30)}`
const START = 1_700_000_000

const engines: DataEngine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
})

async function start(options: DataEngineOptions): Promise<DataEngine> {
  const engine = await startDataEngine(options)
  engines.push(engine)
  return engine
}

test.each([
  [0, [0, 1, 2]],
  [499, [0, 1, 2]],
  [500, [0, 1, 2, 3]],
  [999, [1, 2, 3]],
])(
  'from %d ms of a second on, at an interval of 100 ms, no report of any feed is dated later than the clock',
  async (ms, seconds) => {
    const now = () => START * 1000 + ms
    const engine = await start({ intervalMs: 100, history: 3, clock: 'manual', now })
    await engine.advance(2_500)
    const streamedTimes = new Map<string, number[]>(engine.feeds.map(feedID => [feedID, []]))
    const last = new Map<string, number>()
    for (const report of engine.ledger()) {
      const { feedID, validFromTimestamp, observationsTimestamp, publishedAt, streamed } = report
      const unitMs = feedID.startsWith('0x1') ? 1 : 1000
      expect(observationsTimestamp * unitMs).toBeLessThanOrEqual(publishedAt)
      expect(observationsTimestamp * unitMs).toBeLessThanOrEqual(engine.now())
      const before = last.get(feedID)
      if (before !== undefined) expect(validFromTimestamp).toBe(before + 1)
      last.set(feedID, observationsTimestamp)
      if (streamed) streamedTimes.get(feedID)?.push(observationsTimestamp)
    }
    for (const [feedID, times] of streamedTimes) {
      if (feedID.startsWith('0x1')) expect(times).toHaveLength(25)
      else expect(times).toEqual(seconds.map(second => START + second))
    }
  },
)

test('what is published by hand is dated ahead, and automatic publishing waits for the clock', async () => {
  let clock = START * 1000 + 400
  const engine = await start({ feeds: [inSeconds], intervalMs: 10, history: 0, now: () => clock })
  const times = () => engine.ledger().map(report => report.observationsTimestamp - START)
  engine.publish(inSeconds)
  engine.publish(inSeconds)
  engine.publish(inSeconds)
  await pause(50)
  expect(times()).toEqual([0, 1, 2])
  clock = (START + 3) * 1000 - 1
  await pause(50)
  expect(times()).toEqual([0, 1, 2])
  clock = (START + 3) * 1000
  await until(() => times().length === 4)
  await pause(50)
  expect(times()).toEqual([0, 1, 2, 3])
})

test('a feed that may run ahead keeps to its interval', async () => {
  const engine = await start({
    feeds: [inSeconds, inMs],
    intervalMs: 10,
    runAhead: true,
    history: 0,
    now: () => START * 1000,
  })
  const times = (feedID: string) =>
    engine
      .ledger()
      .filter(report => report.feedID === feedID)
      .map(report => report.observationsTimestamp)
  await until(() => times(inSeconds).length >= 5 && times(inMs).length >= 5)
  expect(times(inSeconds).slice(0, 5)).toEqual([0, 1, 2, 3, 4].map(more => START + more))
  expect(times(inMs).slice(0, 5)).toEqual([0, 1, 2, 3, 4].map(more => START * 1000 + more))
})
