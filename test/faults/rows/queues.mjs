// Queues of workers over a log of NATS that are deployed with other feeds than before.

/** A server, a relay that stores what the engine publishes, and what workers are given in place of keys. */
async function startLog(world) {
  const [{ connect }, { createRelay }, { startNats }] = await Promise.all([
    import('@nats-io/transport-node'),
    import('@sluice/nats'),
    import('../../support/nats/server.mjs'),
  ])
  const { engine, config, defer } = world
  const nats = await startNats()
  defer(() => nats.close())
  const connection = await connect({ servers: nats.servers })
  defer(() => connection.close())
  const relay = await createRelay({ config, connection, feedIDs: engine.feeds, create: true })
  defer(() => relay.close())
  world.config = { servers: nats.servers, queue: 'desk' }
}

async function startWorker(world, feeds) {
  const worker = await world.create({ feeds })
  await world.connect()
  return worker
}

async function leave(worker) {
  await worker.ask('close')
  await worker.kill()
}

/** All feeds but the newest, and then all of them in another order. */
function ordersOf({ feeds }) {
  const before = feeds.slice(0, -1)
  const half = Math.floor(before.length / 2)
  return { before, after: [...feeds.slice(half).reverse(), ...feeds.slice(0, half)] }
}

/** Starts two workers with the feeds of before; what the newest feed publishes until a worker reads it is nobody's due. */
async function startBefore(world) {
  const { feeds, engine, pause } = world
  const { before, after } = ordersOf(world)
  const added = feeds.at(-1)
  let readAt = Number.POSITIVE_INFINITY
  world.ignore = ({ feedID, publishedAt }) => feedID === added && publishedAt <= readAt
  const workers = [await startWorker(world, before), await startWorker(world, before)]
  engine.resume()
  await pause(4000)
  world.begin()
  return {
    workers,
    async startNext() {
      const worker = await startWorker(world, after)
      readAt = Math.min(readAt, Date.now())
      return worker
    },
  }
}

const common = {
  feeds: 151,
  engine: { intervalMs: 1000 },
  needs: 'nats-server',
  program: 'worker',
  connect: false,
  official: false,
  prepare: startLog,
}

export default [
  {
    ...common,
    row: '46a',
    fault:
      'two workers of a NATS queue with 150 feeds stop; two new workers start 3 s later, with 151 reordered feeds; option `redeliverAfter: 5`',
    bound: { doubled: 0, errors: 0 },
    seconds: 16,
    async run(world) {
      const { workers, startNext } = await startBefore(world)
      for (const worker of workers) await leave(worker)
      await world.pause(3000)
      await startNext()
      await startNext()
      await world.pause(5000)
    },
  },
  {
    ...common,
    row: '46b',
    fault:
      'as row 46a, but one worker at a time: each new worker starts 2 s before an old worker stops',
    bound: { doubled: 0 },
    seconds: 16,
    async run(world) {
      const { workers, startNext } = await startBefore(world)
      for (const worker of workers) {
        await startNext()
        await world.pause(2000)
        await leave(worker)
      }
      await world.pause(4000)
    },
  },
]
