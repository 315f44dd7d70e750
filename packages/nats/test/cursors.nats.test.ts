import { expect, test } from '@jest/globals'
import { jetstreamManager } from '@nats-io/jetstream'
import { testCursorStore } from '@sluice/source/testing/test-cursor-store.js'
import { feed, keyOf, startWorld } from '@sluice/test-support/nats/world.js'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import { natsCursors } from '../index.js'

test('are what was saved last, on any connection', async () => {
  const world = await startWorld()
  const here = natsCursors(await world.connect(), { key: 'worker-1' })
  expect(await here.load()).toEqual({})
  await here.save({ [feed(1)]: 1 })
  await here.save({ [feed(1)]: 2, [feed(2)]: 3 })
  const there = natsCursors(await world.connect(), { key: 'worker-1' })
  expect(await there.load()).toEqual({ [feed(1)]: 2, [feed(2)]: 3 })
  const other = natsCursors(await world.connect(), { key: 'worker-2' })
  expect(await other.load()).toEqual({})
})

test('keep the rules of a store', async () => {
  const world = await startWorld()
  const connections = new Set<Awaited<ReturnType<typeof world.connect>>>()
  const result = await testCursorStore(
    async () => {
      const connection = await world.connect()
      connections.add(connection)
      return natsCursors(connection, { key: 'rules' })
    },
    {
      async fail() {
        for (const connection of connections) await connection.close()
      },
    },
  )
  expect(result).toMatchObject({ isLockable: false })
})

test('are never taken back by a stream that another has replaced, whichever saves first', async () => {
  const world = await startWorld()
  const first = natsCursors(await world.connect(), { key: 'k' })
  await first.load()
  await first.save({ [feed(1)]: 1 })
  const second = natsCursors(await world.connect(), { key: 'k' })
  expect(await second.load()).toEqual({ [feed(1)]: 1 })
  const error = await failureOf(first.save({ [feed(1)]: 2 }))
  expect(error).toMatchObject({ code: 'CURSOR_STORE' })
  expect(error.message).toMatch(
    /^key k of bucket sluice-cursors belongs to this process \d+ on .* \(started at .*\), which loaded it later: each stream needs a key of its own$/,
  )
  await second.save({ [feed(1)]: 5 })
  // Whoever loads last goes on.
  expect(await first.load()).toEqual({ [feed(1)]: 5 })
  await first.save({ [feed(1)]: 6 })
  await failureOf(second.save({ [feed(1)]: 7 }))
})

test('go to a new process while the old one runs: the old one says so once, and the new one saves', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  await world.relay(engine)
  const stream = async () => ({
    cursors: natsCursors(await world.connect(), { key: 'w' }),
    saveInterval: 0,
  })
  const old = await world.worker({ stream: await stream() })
  engine.publish(feed(1))
  await until(() => old.reports.length === 1)
  const next = await world.worker({ stream: await stream() })
  for (let at = 0; at < 20; at++) {
    engine.publish(feed(1))
    await pause(20)
  }
  await until(() => old.reports.length === 21 && next.reports.length >= 20)
  expect(old.errors).toMatchObject([
    {
      code: 'CURSOR_STORE',
      message: expect.stringMatching(/^cursors are no longer saved: key w .* a key of its own$/),
    },
  ])
  expect(next.errors).toEqual([])
  await next.client.close()
  await old.client.close()
  const last = next.reports.at(-1)?.observationsTimestamp
  const saved = await natsCursors(await world.connect(), { key: 'w' }).load()
  expect(saved[feed(1)]).toBe(last)
})

test('of a version that stored no owner are read', async () => {
  const world = await startWorld()
  const connection = await world.connect()
  const { Kvm } = await import('@nats-io/kv')
  const bucket = await new Kvm(connection).create('sluice-cursors')
  await bucket.put('k', JSON.stringify({ [feed(1)]: 7 }))
  const cursors = natsCursors(connection, { key: 'k' })
  expect(await cursors.load()).toEqual({ [feed(1)]: 7 })
  await cursors.save({ [feed(1)]: 8 })
  expect(await cursors.load()).toEqual({ [feed(1)]: 8 })
})

test('are saved again after saves that had no answer, whichever of them was stored', async () => {
  const world = await startWorld()
  const cursors = natsCursors(await world.connect(), { key: 'k' })
  await cursors.load()
  await cursors.save({ [feed(1)]: 1 })
  const [node] = world.servers.nodes
  node.freeze()
  await pause(200)
  for (const time of [2, 3]) await failureOf(cursors.save({ [feed(1)]: time }))
  node.thaw()
  await cursors.save({ [feed(1)]: 4 })
  expect(await cursors.load()).toEqual({ [feed(1)]: 4 })
}, 30_000)

test('that are no cursors, and a store that is away, are errors', async () => {
  const world = await startWorld()
  const connection = await world.connect()
  const { Kvm } = await import('@nats-io/kv')
  const bucket = await new Kvm(connection).create('sluice-cursors')
  await bucket.put('k', '{"0x1":1}')
  const cursors = natsCursors(connection, { key: 'k' })
  expect((await failureOf(cursors.load())).message).toContain(
    'key k of bucket sluice-cursors holds no cursors: "0x1" is no feed id',
  )
  const [node] = world.servers.nodes
  await node.kill()
  expect((await failureOf(cursors.save({}))).message).toContain("can't be written")
}, 30_000)

test('let a worker on another machine go on where the first was, with every report once', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  const stream = async () => ({
    cursors: natsCursors(await world.connect(), { key: 'w' }),
    saveInterval: 0,
  })
  const first = await world.worker({ stream: await stream() })
  for (let at = 0; at < 20; at++) engine.publish(feed(1 + (at % 2)))
  await until(() => first.reports.length === 20)
  await first.client.close()
  for (let at = 0; at < 30; at++) engine.publish(feed(1 + (at % 2)))
  await until(() => relay.getMetrics().stored === 50)
  const second = await world.worker({ stream: await stream() })
  engine.publish(feed(1))
  await until(() => second.reports.length === 31)
  const all = [...first.reports, ...second.reports].map(keyOf)
  expect(new Set(all).size).toBe(51)
  expect(second.gaps).toEqual([])
  expect([...first.errors, ...second.errors]).toEqual([])
})

test('have as many copies as the reports, whoever starts first, and a bucket with fewer is a warning', async () => {
  const world = await startWorld({ nodes: 3 })
  const connection = await world.connect()
  const manager = await jetstreamManager(connection, { checkAPI: false })
  const log = { name: 'SLUICE', subjects: ['sluice.*.*'], num_replicas: 3 }
  // The servers elect their leader.
  while ((await manager.streams.add(log).catch(() => undefined)) === undefined) await pause(200)
  const warnings: string[] = []
  const warn = (message: string): void => void warnings.push(message)
  const copies = async (bucket: string) =>
    (await manager.streams.info(`KV_${bucket}`)).config.num_replicas
  await natsCursors(connection, { key: 'worker', log: { warn } }).load()
  expect(await copies('sluice-cursors')).toBe(3)
  await natsCursors(connection, { bucket: 'few', key: 'a', replicas: 1, log: { warn } }).load()
  expect(await copies('few')).toBe(1)
  expect(warnings).toEqual([])
  await natsCursors(connection, { bucket: 'few', key: 'b', log: { warn } }).load()
  expect(warnings).toEqual(['bucket few has 1 of 3 copies: nats stream edit KV_few --replicas 3'])
  await natsCursors(connection, { bucket: 'other', key: 'a', stream: 'NONE', log: { warn } }).load()
  expect(await copies('other')).toBe(1)
}, 60_000)
