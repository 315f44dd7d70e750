import { createClient } from '@chainlink/data-streams-sdk'
import { expect, test } from '@jest/globals'
import type { DataEngine } from '../../index.js'
import {
  connections,
  count,
  directly,
  ethUsd,
  foreign,
  pair,
  publish,
  quiet,
  through,
  times,
  untilAlone,
} from '../support/origins.js'
import { sleep, until } from '../support/signed.js'

// The state an engine is in when it is closed.
const states: [string, (engine: DataEngine) => unknown][] = [
  ['as it started', () => {}],
  ['stopped', engine => engine.stop()],
  ['stopping', engine => void engine.stop()],
  ['killed', engine => engine.origins[0]?.kill()],
  [
    'being killed and restarted',
    engine => {
      void engine.origins[0]?.kill()
      void engine.origins[0]?.restart()
    },
  ],
  ['blackholed', engine => engine.blackhole(true)],
  ['with an origin blackholed', engine => engine.origins[0]?.blackhole(true)],
  ['delayed', engine => engine.origins[0]?.delay(60_000)],
  ['reordering', engine => engine.origins[0]?.reorder(10)],
  ['refusing', engine => engine.origins[0]?.refuse(503)],
  ['failing late', engine => void engine.fail({ status: 500, delayMs: 60_000, times: 9 })],
  ['disconnecting', engine => engine.origins[0]?.disconnect()],
]

test.each(states)('close ends and leaves nothing open: %s', async (_, prepare) => {
  await untilAlone()
  const timers = count('Timeout')
  const engine = await quiet({ intervalMs: 5, runAhead: true })
  const [one] = pair(engine)
  const streams = [await directly(engine, one), await through(engine, '001')]
  await prepare(engine)
  const opening = Promise.allSettled([directly(engine, one), through(engine, '001')])
  publish(engine, 3)
  await sleep(20)
  await engine.close()
  await Promise.all(streams.map(({ closed }) => closed))
  await opening
  await until(() => count('TCP') <= foreign && count('Timeout') <= timers)
  await expect(one.restart()).rejects.toThrow('the data engine is closed')
  await expect(directly(engine, one)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test('an engine that finds its port taken leaves no origin behind', async () => {
  await untilAlone()
  const before = count('TCPServerWrap')
  await using engine = await quiet({ origins: 1 })
  expect(count('TCPServerWrap')).toBe(before + 1)
  const port = Number(new URL(engine.endpoint).port)
  await expect(quiet({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  await until(() => count('TCPServerWrap') === before + 1)
})

test.each(['found by HEAD', 'given as a list'])(
  'the official client streams from two origins %s, and from the other when one dies',
  async how => {
    await using engine = await quiet()
    const { apiKey, userSecret, endpoint, origins } = engine
    const wsEndpoint =
      how === 'found by HEAD'
        ? engine.wsEndpoint
        : origins.map(origin => origin.wsEndpoint).join(',')
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint, haMode: true })
    const stream = client.createStream([ethUsd])
    const seen: number[] = []
    stream.on('error', () => {})
    stream.on('report', report => seen.push(report.observationsTimestamp))
    await stream.connect()
    expect(connections(engine)).toEqual([1, 1])
    const heads = engine.requests().filter(({ method }) => method === 'HEAD')
    expect(heads).toHaveLength(how === 'found by HEAD' ? 1 : 0)
    const reports = publish(engine, 1)
    await until(() => seen.length === 1)
    await origins[0]?.kill()
    reports.push(...publish(engine, 3))
    await until(() => seen.length === 4)
    expect(seen).toEqual(times(reports))
    expect(connections(engine)).toEqual([0, 1])
    await stream.close()
  },
)
