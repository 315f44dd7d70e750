import { expect, test } from '@jest/globals'
import type { EngineOrigin, PublishedReport } from '../../index.js'
import {
  connections,
  direct,
  directly,
  ethUsd,
  listedBy,
  pair,
  path,
  publish,
  quiet,
  through,
  timeOf,
  times,
} from '../support/origins.js'
import { refusedStream, send, sleep, until } from '../support/signed.js'

test('a killed origin resets its connections and refuses others, while the rest goes on', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  const killed = [await directly(engine, one), await through(engine, '001')]
  const alive = [await directly(engine, two), await through(engine, '002')]
  await one.kill()
  for (const { broken, closed } of killed) {
    expect((await broken).code).toBe('ECONNRESET')
    expect(await closed).toBe(1006)
  }
  await expect(directly(engine, one)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  expect(one.upgrades).toBe(2)
  const refused = await refusedStream(engine, path, { headers: { 'X-Cll-Origin': '001' } })
  expect([refused.status, refused.headers['content-type']]).toEqual([502, 'text/html'])
  expect(refused.headers['x-cll-available-origins']).toBe('{001,002}')
  expect(one.upgrades).toBe(3)
  expect(engine.requests().at(-1)).toMatchObject({ origin: '001', status: 502 })
  expect((await send(engine, '/api/v1/feeds')).status).toBe(200)
  await through(engine)
  await through(engine)
  expect(connections(engine)).toEqual([0, 4])
  const report = engine.publish(ethUsd)
  for (const stream of alive) {
    await stream.received(1)
    expect(stream.frames.map(timeOf)).toEqual([report.observationsTimestamp])
  }
})

test('a restarted origin is back on its port', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  const { wsEndpoint } = one
  await one.kill()
  await one.kill()
  await Promise.all([one.restart(), one.restart()])
  expect(one.wsEndpoint).toBe(wsEndpoint)
  const streams = [await directly(engine, one), await through(engine, '001')]
  expect(connections(engine)).toEqual([2, 0])
  engine.publish(ethUsd)
  for (const stream of streams) await stream.received(1)
  void one.kill()
  await one.restart()
  await directly(engine, one)
})

test.each(['directly', 'through the front door'])(
  'a blackholed origin sends nothing, connected to %s, and the others do',
  async how => {
    await using engine = await quiet()
    const [one, two] = pair(engine)
    const open = () => (how === 'directly' ? directly(engine, one) : through(engine, '001'))
    const stream = await open()
    const other = await through(engine, '002')
    let pongs = 0
    stream.socket.on('pong', () => pongs++)
    one.blackhole(true)
    let isOpen = false
    const late = open().finally(() => {
      isOpen = true
    })
    stream.socket.ping()
    const reports = publish(engine, 2)
    await other.received(2)
    await until(() => one.upgrades === 2)
    await sleep(100)
    expect([isOpen, pongs, stream.frames.length, one.connections]).toEqual([false, 0, 0, 1])
    expect(engine.deliveries(reports[0] as PublishedReport)).toMatchObject([{ origin: two.id }])
    engine.blackhole(true)
    one.blackhole(false)
    await sleep(50)
    expect([isOpen, stream.frames.length]).toEqual([false, 0])
    one.blackhole(true)
    engine.blackhole(false)
    await sleep(50)
    expect([isOpen, stream.frames.length]).toEqual([false, 0])
    one.blackhole(false)
    await late
    await stream.received(2)
    await until(() => pongs === 1)
    expect(stream.frames.map(timeOf)).toEqual(times(reports))
    expect(engine.deliveries(reports[0] as PublishedReport).map(({ origin }) => origin)).toEqual([
      '002',
      '001',
    ])
  },
)

test('a report delayed in a blackhole whose stream then dies was not delivered', async () => {
  await using engine = await quiet()
  const [one] = pair(engine)
  await directly(engine, one)
  one.blackhole(true)
  const report = engine.publish(ethUsd)
  await one.kill()
  one.blackhole(false)
  await one.restart()
  expect(engine.deliveries(report)).toEqual([])
})

test('what a killed origin had delayed is lost', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  for (const origin of [one, two]) await through(engine, origin.id)
  one.delay(20)
  two.reorder(5)
  const lost = engine.publish(ethUsd)
  await Promise.all([one.kill(), two.kill()])
  const meanwhile = engine.publish(ethUsd)
  await Promise.all([one.restart(), two.restart()])
  const streams = [await through(engine, '001'), await through(engine, '002')]
  const report = engine.publish(ethUsd)
  two.reorder(0)
  for (const stream of streams) {
    await stream.received(1)
    await sleep(40)
    expect(stream.frames.map(timeOf)).toEqual([report.observationsTimestamp])
  }
  expect([lost, meanwhile].map(engine.deliveries)).toEqual([[], []])
})

test('an origin that leaves is no longer listed, and keeps its streams', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  expect(await listedBy(engine)).toBe('{001,002}')
  const stream = await through(engine, '001')
  one.leave()
  expect(await listedBy(engine)).toBe('{002}')
  expect(stream.socket.readyState).toBe(stream.socket.OPEN)
  const named = await through(engine, '001')
  expect(named.headers['x-cll-available-origins']).toBe('{002}')
  await through(engine)
  await through(engine)
  expect(connections(engine)).toEqual([2, 2])
  engine.publish(ethUsd)
  await stream.received(1)
  two.leave()
  const { headers } = await send(engine, '/api/v1/feeds')
  expect(headers['x-cll-available-origins']).toBe('{}')
  await through(engine)
  one.join()
  two.join()
  expect(await listedBy(engine)).toBe('{001,002}')
})

test('stop and start take all origins away and bring them back on their ports, but for killed ones', async () => {
  await using engine = await quiet({ origins: 3 })
  const [one, two, three] = engine.origins as [EngineOrigin, EngineOrigin, EngineOrigin]
  const endpoints = () => [engine, one, two, three].map(({ wsEndpoint }) => wsEndpoint)
  const before = endpoints()
  const streams = [await directly(engine, one), await through(engine, '002')]
  await engine.stop()
  for (const { closed } of streams) expect(await closed).toBe(1006)
  await expect(through(engine)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await expect(directly(engine, one)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await two.kill()
  await three.kill()
  await three.restart()
  await expect(directly(engine, three)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await engine.start()
  expect(endpoints()).toEqual(before)
  for (const origin of [one, three]) await directly(engine, origin)
  await through(engine, '003')
  await expect(directly(engine, two)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  await two.restart()
  await directly(engine, two)
})

test('what the engine does, it does at all origins', async () => {
  await using engine = await quiet()
  const [one, two] = pair(engine)
  const streams = [await through(engine, '001'), await directly(engine, two)]
  expect(engine.connections).toBe(2)
  expect(engine.send('hello', ethUsd)).toBe(2)
  expect(engine.send('hello')).toBe(2)
  for (const stream of streams) await stream.received(2)
  engine.fail({ status: 503, times: 3, path: '/api' })
  const statuses = [
    (await refusedStream(engine, path)).status,
    (await refusedStream(direct(engine, one), path)).status,
    (await send(engine, '/api/v1/feeds')).status,
    (await send(engine, '/api/v1/feeds')).status,
  ]
  expect(statuses).toEqual([503, 503, 503, 200])
  expect(engine.requests().map(({ status }) => status)).toEqual([101, 101, ...statuses])
  expect(engine.disconnect(4000)).toBe(2)
  expect(await Promise.all(streams.map(({ closed }) => closed))).toEqual([4000, 4000])
})
