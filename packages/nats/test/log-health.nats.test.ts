import { expect, test } from '@jest/globals'
import { jetstreamManager } from '@nats-io/jetstream'
import { startGateway } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, startWorld } from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import type { Health } from 'sluice/health'
import { queuePreset, workerHealth } from '../index.js'

const causesOf = (health: Health): readonly string[] => health.problems.map(({ cause }) => cause)
const wordsOf = (health: Health, which: string): string =>
  health.problems.find(({ cause }) => cause === which)?.message ?? ''

test('two of three servers away are no quorum, for each service, until they are back', async () => {
  const world = await startWorld({ nodes: 3 })
  const engine = await world.engine()
  const relay = await world.relay(engine, { create: { replicas: 3 } })
  const said: string[] = []
  relay.stream.on('error', ({ message }) => void said.push(message))
  const connection = await world.connect()
  const worker = await world.worker({ connection, plugins: queuePreset(), wire: { queue: 'desk' } })
  const health = workerHealth(worker.stream, { connection, queue: 'desk' })
  const gateway = await startGateway(world)
  const timer = setInterval(() => engine.publish(feed(1)), 100)
  closers.push(() => clearInterval(timer))
  const all: readonly Health[] = [relay.health, health, gateway.health]
  await until(() => relay.getMetrics().stored > 5)
  // A look each two seconds, so each knows the servers.
  await pause(4500)
  for (const each of all) expect(causesOf(each)).not.toContain('no-quorum')
  const causes: string[] = []
  const [n1, n2, n3] = world.servers.nodes
  await Promise.all([n1, n2].map(node => node?.kill()))
  for (const each of all) await until(() => causesOf(each).includes('no-quorum'))
  expect(wordsOf(relay.health, 'no-quorum')).toBe(
    'of 3 servers of NATS, n1, n2 are away: the others are no majority, so nothing can be stored',
  )
  for (let at = 0; at < 80; at++) {
    const [cause = ''] = causesOf(relay.health).filter(each => each.startsWith('publish-'))
    if (cause !== causes.at(-1)) causes.push(cause)
    await pause(100)
  }
  // At most none, then unanswered, then refused, which stays.
  expect(causes.length).toBeLessThan(4)
  for (const each of all) expect(causesOf(each)).toContain('no-quorum')
  expect(said.filter(message => /jetstream is not enabled/i.test(message))).toEqual([])
  await Promise.all([n1, n2].map(node => node?.start()))
  expect(n3?.pid).toBeDefined()
  for (const each of all) await until(() => !causesOf(each).includes('no-quorum'))
}, 120_000)

test('a stream that is deleted is created again by its relay, and each service says what is lost', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  const lines: string[] = []
  const gateway = await startGateway(world, {
    log: { warn: line => void lines.push(line), error: () => undefined, info: () => undefined },
  })
  engine.publish(feed(1))
  await until(() => relay.getMetrics().stored === 1)
  const manager = await jetstreamManager(await world.connect())
  await until(() => causesOf(gateway.health).length === 0)
  await pause(2500)
  await manager.streams.delete('SLUICE')
  await until(() => causesOf(gateway.health).includes('stream-missing'))
  await until(() => causesOf(relay.health).includes('stream-missing'))
  expect(wordsOf(relay.health, 'stream-missing')).toBe(
    'stream SLUICE does not exist: a relay with create makes it, at its start and while it runs',
  )
  engine.publish(feed(1))
  await until(() => relay.getMetrics().stored === 2)
  for (const { health } of [relay, gateway]) {
    await until(() => causesOf(health).includes('log-recreated'))
    expect(wordsOf(health, 'log-recreated')).toMatch(
      /^stream SLUICE was deleted, and created again at \S+: the reports that were stored before are lost$/,
    )
    expect(health.isReady).toBe(true)
  }
  // The tail asks twice a second, and says it once.
  expect(lines.filter(line => line.includes('does not exist'))).toHaveLength(1)
}, 60_000)

test('a log without new reports is a warning to its readers, and a metric', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  engine.publish(feed(1))
  await until(() => relay.getMetrics().stored === 1)
  const gateway = await startGateway(world)
  const connection = await world.connect()
  const worker = await world.worker({ connection, stream: { staleAfter: 0 } })
  const health = workerHealth(worker.stream, { connection })
  const age = (of: Health): unknown =>
    of.measures.find(({ name }) => name.endsWith('.newest_report_age'))?.read()
  await until(() => causesOf(gateway.health).includes('no-new-reports'))
  await until(() => causesOf(health).includes('no-new-reports'))
  expect(wordsOf(health, 'no-new-reports')).toMatch(
    /^the log has had no new report for 3\d s: look at its relays, and at the service$/,
  )
  expect(age(health)).toBeGreaterThan(30)
  expect([health.isReady, gateway.health.isReady]).toEqual([true, true])
  engine.publish(feed(1))
  await until(() => causesOf(health).length + causesOf(gateway.health).length === 0)
  expect(age(gateway.health)).toBeLessThan(10)
}, 90_000)
