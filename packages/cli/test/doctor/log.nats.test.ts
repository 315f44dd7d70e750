import { expect, test } from '@jest/globals'
import { jetstreamManager } from '@nats-io/jetstream'
import { feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { until } from '@sluice/test-support/waiting.js'
import type { Subject } from '../../doctor/context.js'
import { checksFor } from '../../doctor/doctor.js'
import { diagnose, subjectOf } from '../support/cli/doctor.js'

/** Who reads the log alone has no credentials. */
function reader({ servers }: LogWorld, feedIDs: readonly string[] = []): Subject {
  const log = { nats: servers.servers.join() }
  return { ...subjectOf('http://127.0.0.1:1'), credentials: undefined, feedIDs, log }
}

test('finds a log in order, without credentials of the service', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  engine.publish(feed(1))
  engine.publish(feed(2))
  await until(() => relay.getMetrics().stored === 2)
  const diagnosis = await diagnose(reader(world))
  expect(checksFor(reader(world)).map(({ name }) => name)).toEqual(['node', 'packages', 'log'])
  expect(diagnosis.exitCode).toBe(0)
  expect(diagnosis.of('ok')).toEqual(
    expect.arrayContaining([
      'log: stream SLUICE serves: 2 reports, replicas: 1',
      expect.stringMatching(/^log: 0x1003.*1: its last report is \d+\.\d s old$/),
      expect.stringMatching(/^log: 0x1003.*2: its last report is \d+\.\d s old$/),
    ]),
  )
})

test('names a feed that the log does not have, an old one, and a reader that is behind', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  engine.publish(feed(1), { observationsTimestamp: Date.now() - 600_000 })
  await until(() => relay.getMetrics().stored === 1)
  const manager = await jetstreamManager(await world.connect())
  await manager.consumers.add('SLUICE', { durable_name: 'workers', ack_policy: 'explicit' })
  const diagnosis = await diagnose(reader(world, [feed(1), feed(9)]))
  expect(diagnosis.of('failed')).toEqual([`log: ${feed(9)} has no report in the log`])
  expect(diagnosis.of('warning')).toEqual([`log: ${feed(1)}: its last report is 10 min old`])
  expect(diagnosis.of('ok')).toContain('log: reader workers is 1 reports behind')
  expect(diagnosis.exitCode).toBe(4)
})

test('names the settings of a stream that do not serve', async () => {
  const world = await startWorld()
  const manager = await jetstreamManager(await world.connect())
  await manager.streams.add({ name: 'SLUICE', subjects: ['sluice.*.*'], max_msgs_per_subject: 1 })
  const diagnosis = await diagnose(reader(world))
  expect(diagnosis.of('failed')).toEqual([
    'log: stream SLUICE does not serve: allow_direct must be true',
    'log: stream SLUICE does not serve: max_msgs_per_subject must be -1, not 1',
  ])
})

test('says that the stream is not there, or the server', async () => {
  const world = await startWorld()
  const missing = await diagnose(reader(world))
  expect(missing.of('failed')).toEqual([
    'log: stream SLUICE does not exist: a relay with create makes it, at its start and while it runs',
  ])
  const [node] = world.servers.nodes
  const subject = reader(world)
  await node.kill()
  const away = await diagnose({
    ...subject,
    log: {
      ...subject.log,
      nats: `nats://someone:open-sesame@127.0.0.1:${node.port}`,
    } as Subject['log'],
  })
  expect(away.of('failed')).toEqual([expect.stringMatching(/^log: .*refused/i)])
  expect(away.exitCode).toBe(4)
  expect(away.text).not.toContain('open-sesame')
})
