import { expect, jest, test } from '@jest/globals'
import type { EngineOrigin, PublishedReport } from '../index.js'
import { directly, ethUsd, publish, quiet, settled, through } from './support/origins.js'
import { type OpenStream, until } from './support/signed.js'

test('deliveries are what streams have received, whatever the switches do', async () => {
  await using engine = await quiet({ origins: 3 })
  const [one, two, three] = engine.origins as [EngineOrigin, EngineOrigin, EngineOrigin]
  const before = engine.publish(ethUsd)
  const streams = [
    await through(engine, '001'),
    await directly(engine, one),
    await through(engine, '002'),
    await through(engine, '003'),
  ]
  one.drop(0.4)
  one.duplicate(0.3)
  two.drop(0.4)
  two.reorder(3)
  three.corrupt(0.3)
  const reports = publish(engine, 60)
  const missed = engine.publish(ethUsd, {}, { streamed: false })
  for (const stream of streams) await settled(engine, stream)
  streams[3]?.socket.terminate()
  await until(() => three.connections === 0)
  reports.push(...publish(engine, 10))
  two.reorder(0)
  for (const stream of streams.slice(0, 3)) await settled(engine, stream)
  expect(engine.deliveries(before)).toEqual([])
  expect(engine.deliveries(missed)).toEqual([])
  const text = ({
    feedID,
    fullReport,
    validFromTimestamp,
    observationsTimestamp,
  }: PublishedReport) =>
    JSON.stringify({ report: { feedID, fullReport, validFromTimestamp, observationsTimestamp } })
  for (const report of reports) {
    const deliveries = engine.deliveries(report)
    for (const [i, id] of ['001', '001', '002', '003'].entries()) {
      const mine = deliveries.filter(({ stream }) => stream === i + 1)
      const seen = streams[i]?.frames.filter(frame => frame.text === text(report))
      expect(mine).toHaveLength(seen?.length ?? 0)
      for (const { origin, at } of mine) {
        expect(origin).toBe(id)
        expect(at).toBeGreaterThanOrEqual(report.publishedAt)
        expect(at).toBeLessThanOrEqual(Date.now())
      }
    }
  }
  const alive = reports.filter(report => engine.deliveries(report).length > 0)
  expect(alive.length).toBeGreaterThan(40)
})

test('one frame is made of a report, however many get it', async () => {
  await using engine = await quiet({ origins: 4, compression: false })
  const streams: OpenStream[] = []
  for (const { id } of engine.origins) {
    streams.push(await through(engine, id), await through(engine, id))
  }
  expect(streams[0]?.socket.extensions).toBe('')
  const stringify = jest.spyOn(JSON, 'stringify')
  try {
    engine.publish(ethUsd)
    expect(stringify).toHaveBeenCalledTimes(1)
  } finally {
    stringify.mockRestore()
  }
  for (const stream of streams) await stream.received(1)
})
