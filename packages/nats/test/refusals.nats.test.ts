import { describe, expect, test } from '@jest/globals'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { startGateway } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import { createClient } from 'sluice'
import { createDeferred } from 'sluice/core'
import {
  type CreateOptions,
  createRelay,
  natsCursors,
  natsWire,
  queuePreset,
  workerPreset,
} from '../index.js'

const MIB = 1_048_576

/** A connection, and the requests that were sent over it. */
interface Counted {
  readonly connection: NatsConnection
  count(subject: string): number
  /** Requests wait for it. */
  gate: Promise<unknown>
}

/** A server with the accounts A, with these limits, and N, without JetStream. */
function startLimited(limits: string, permissions = ''): Promise<LogWorld> {
  return startWorld({
    config: `accounts {
      A: { jetstream: ${limits}, users: [{ user: a, password: a, permissions: { ${permissions} } }] }
      N: { users: [{ user: n, password: n }] }
    }`,
  })
}

async function connectCounted({ servers: { servers } }: LogWorld, user = 'a'): Promise<Counted> {
  const connection = await connect({ servers, ...(user && { user, pass: user }) })
  closers.push(() => connection.close())
  const subjects: string[] = []
  const { request } = connection
  const count = (part: string): number => subjects.filter(each => each.includes(part)).length
  const counted: Counted = { connection, count, gate: Promise.resolve() }
  connection.request = async (subject, ...given) => {
    subjects.push(subject)
    await counted.gate
    return request.call(connection, subject, ...given)
  }
  return counted
}

const managerOf = ({ connection }: Counted) => jetstreamManager(connection, { checkAPI: false })

/** Starts a relay. Rejects with the error of the start. */
async function startRelay(world: LogWorld, { connection }: Counted, create: CreateOptions = {}) {
  const engine = await world.engine()
  const { apiKey, userSecret, endpoint, wsEndpoint, feeds } = engine
  const config = { apiKey, userSecret, endpoint, wsEndpoint, haMode: false }
  const relay = await createRelay({ config, connection, feedIDs: feeds, create })
  closers.push(() => relay.close())
  return engine
}

/** Opens a worker's stream, which would try to connect without an end. */
async function startWorker({ connection }: Counted, queue?: string): Promise<string[]> {
  const client = createClient({
    ...natsWire(connection, { ...(queue && { queue }) }),
    plugins: queue === undefined ? workerPreset() : queuePreset(),
  })
  closers.push(() => client.close())
  const stream = client.createStream([feed(1)], {
    maxReconnectAttempts: Number.POSITIVE_INFINITY,
    reconnectInterval: 50,
  })
  const events: string[] = []
  stream.on('status', status => {
    if (status.type === 'reconnecting') events.push(status.error.message)
  })
  stream.on('report', () => void events.push('report'))
  await stream.connect()
  return events
}

describe('an account that demands limits', () => {
  const demanding = '{ max_file: 10G, max_bytes_required: true, disk_max_stream_bytes: 100MB }'

  test('gets them from bytes: of the log, the dead letters and the cursors', async () => {
    const world = await startLimited(demanding)
    const one = await connectCounted(world)
    await startRelay(world, one, { bytes: 32 * MIB })
    await startWorker(one, 'desk')
    const { streams } = await managerOf(one)
    for (const name of ['SLUICE', 'SLUICE-DEAD', 'KV_sluice-cursors'])
      expect((await streams.info(name)).config.max_bytes).toBe(32 * MIB)
  })

  test('serves natsCursors by itself', async () => {
    const world = await startLimited(demanding)
    const one = await connectCounted(world)
    const { streams } = await managerOf(one)
    await natsCursors(one.connection, { key: 'k' }).load()
    expect((await streams.info('KV_sluice-cursors')).config.max_bytes).toBe(64 * MIB)
    await natsCursors(one.connection, { key: 'k', bucket: 'own', bytes: 2 * MIB }).load()
    expect((await streams.info('KV_own')).config.max_bytes).toBe(2 * MIB)
  })

  test('keeps a bucket that exists with other limits, whoever is first', async () => {
    const world = await startLimited(demanding)
    const one = await connectCounted(world)
    const stores = [2, 3, 4, 5].map(size =>
      natsCursors(one.connection, { key: `k${size}`, bytes: size * MIB }),
    )
    await Promise.all(stores.map(store => store.load()))
    await Promise.all(stores.map(store => store.save({ [feed(1)]: 1 })))
    for (const store of stores) expect(await store.load()).toEqual({ [feed(1)]: 1 })
  })
})

describe('a refusal', () => {
  test.each([
    [
      'more bytes than a stream may have',
      '{ max_file: 1G, disk_max_stream_bytes: 10MB }',
      'set fewer bytes (create.bytes of a relay), or raise disk_max_stream_bytes',
    ],
    ['too little storage', '{ max_file: 10MB }', 'raise max_file of the account'],
  ])('of the log is said at once: %s', async (_name, limits, remedy) => {
    const world = await startLimited(limits)
    const one = await connectCounted(world)
    const error = await failureOf(startRelay(world, one, { bytes: 32 * MIB }))
    expect(error).toMatchObject({ code: 'RELAY_LOG', isRetryable: false })
    expect(error.message).toContain('stream SLUICE could not be created: ')
    expect(error.message).toContain(remedy)
    expect(one.count('STREAM.CREATE')).toBe(1)
  })

  test.each([
    ['too little storage for the sum', '{ max_file: 40MB }', 'raise max_file of the account'],
    ['too many streams', '{ max_file: 1G, max_streams: 1 }', 'raise max_streams of the account'],
  ])('of the cursors is said at once: %s', async (_name, limits, remedy) => {
    const world = await startLimited(limits)
    const one = await connectCounted(world)
    const error = await failureOf(startRelay(world, one, { bytes: 32 * MIB }))
    expect(error).toMatchObject({ code: 'RELAY_LOG', isRetryable: false })
    expect(error.message).toContain('bucket sluice-cursors could not be opened: ')
    expect(error.message).toContain(remedy)
    expect(one.count('STREAM.CREATE.KV_')).toBe(1)
  })

  test('is an account without JetStream, for everybody', async () => {
    const world = await startLimited('enabled')
    const one = await connectCounted(world, 'n')
    const cursors = natsCursors(one.connection, { key: 'k' })
    for (const act of [
      () => startRelay(world, one),
      () => cursors.load(),
      () => startWorker(one),
      () => startWorker(one, 'desk'),
    ]) {
      const { message } = await failureOf(act())
      expect(message).toContain('JetStream not enabled for account: set jetstream: enabled')
    }
    expect(one.count('STREAM.INFO')).toBe(4)
  })

  test('is a permission that is missing', async () => {
    const world = await startLimited('enabled', 'publish: { deny: "$JS.API.STREAM.CREATE.>" }')
    const one = await connectCounted(world)
    for (const act of [
      () => startRelay(world, one),
      () => natsCursors(one.connection, { key: 'k' }).load(),
    ]) {
      const { message } = await failureOf(act())
      expect(message).toMatch(
        /Permissions Violation for Publish to "\$JS\.API\.STREAM\.CREATE\.[^"]+": give the user/,
      )
    }
    expect(one.count('STREAM.CREATE')).toBe(2)
  })

  test('is a permission to read that is missing, which NATS tells to nobody in particular', async () => {
    const denied = 'publish: { deny: "$JS.API.CONSUMER.MSG.NEXT.>" }'
    const world = await startLimited('enabled', denied)
    const one = await connectCounted(world)
    await startRelay(world, one, { bytes: 32 * MIB })
    const lines: string[] = []
    const log = { warn: (line: string) => void lines.push(line) }
    await startGateway(world, { connection: one.connection, log })
    const said = [await startWorker(one), await startWorker(one, 'desk'), lines]
    await until(() => said.every(({ length }) => length > 0))
    for (const event of said.flat())
      expect(event).toMatch(/Permissions Violation for Publish to "[^"]+": give the user/)
  }, 30_000)

  test('is a number of copies that one server can not hold', async () => {
    const world = await startWorld()
    const one = await connectCounted(world, '')
    const { message } = await failureOf(startRelay(world, one, { replicas: 3 }))
    expect(message).toContain('set replicas to 1 (create.replicas of a relay)')
    expect(one.count('STREAM.CREATE')).toBe(1)
  })

  test('is a bucket that is full', async () => {
    const world = await startWorld()
    const one = await connectCounted(world, '')
    const { streams } = await managerOf(one)
    await streams.add({ name: 'KV_tiny', subjects: ['$KV.tiny.>'], max_bytes: 10, discard: 'new' })
    const { message } = await failureOf(
      natsCursors(one.connection, { key: 'k', bucket: 'tiny' }).load(),
    )
    expect(message).toContain('maximum bytes exceeded: the stream is full: raise its max_bytes')
    expect(one.count('$KV.tiny.k')).toBe(1)
  })

  test('ends a worker at its start: too many consumers, too many unacknowledged reports', async () => {
    const limits = '{ max_file: 1G, max_consumers: 1, max_ack_pending: 100 }'
    const world = await startLimited(limits)
    const one = await connectCounted(world)
    await startRelay(world, one, { bytes: 32 * MIB })
    const queue = await failureOf(startWorker(one, 'desk'))
    expect(queue.message).toContain('raise max_ack_pending of the account')
    const { consumers } = await managerOf(one)
    await consumers.add('SLUICE', { durable_name: 'other', ack_policy: 'none' })
    const worker = await failureOf(startWorker(one))
    expect(worker.message).toContain('raise max_consumers of the account')
    expect(one.count('CONSUMER.CREATE') + one.count('CONSUMER.DURABLE')).toBe(3)
  })

  test('does not end a worker that runs: it goes on when it is accepted again', async () => {
    const world = await startLimited('{ max_file: 1G, max_consumers: 1 }')
    const one = await connectCounted(world)
    const engine = await startRelay(world, one, { bytes: 32 * MIB })
    const events = await startWorker(one)
    const { consumers } = await managerOf(await connectCounted(world))
    const [own] = await consumers.list('SLUICE').next()
    const { promise, resolve } = createDeferred()
    one.gate = promise
    await consumers.delete('SLUICE', own?.name ?? '')
    await consumers.add('SLUICE', { durable_name: 'other', ack_policy: 'none' })
    resolve()
    const refused = (): readonly string[] =>
      events.filter(event => event.includes('raise max_consumers of the account'))
    await until(() => refused().length > 1)
    await consumers.delete('SLUICE', 'other')
    engine.publish(feed(1))
    await until(() => events.includes('report'))
  }, 30_000)
})

test('a server without JetStream is said at once', async () => {
  const world = await startWorld({ jetstream: 'enabled: false' })
  const one = await connectCounted(world, '')
  const { message } = await failureOf(startRelay(world, one))
  expect(message).toBe('NATS has no JetStream: start nats-server with -js')
  expect(one.count('STREAM.INFO')).toBe(1)
})

test('a refusal that may pass is tried again: a cluster that is about to elect its leader', async () => {
  const world = await startWorld({ nodes: 3 })
  const one = await connectCounted(world, '')
  const { streams } = await managerOf(one)
  const copied = { name: 'X', subjects: ['x'], num_replicas: 3 }
  // The servers elect their leader.
  while ((await streams.add(copied).catch(() => undefined)) === undefined) await pause(200)
  const own = one.connection.getServer()
  const others = world.servers.nodes.filter(({ port }) => own !== `127.0.0.1:${port}`)
  for (const other of others) await other.kill()
  const started = startRelay(world, one, { replicas: 3 })
  await until(() => one.count('STREAM.INFO.SLUICE') > 1)
  for (const other of others) await other.start()
  await started
  expect((await streams.info('SLUICE')).config.num_replicas).toBe(3)
}, 60_000)
