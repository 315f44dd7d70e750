// The name of the service does not resolve, or to something else. The resolver is that of the row, in the client.
import { startTap } from '../harness/tap.mjs'

const host = 'service.test'
const here = { addresses: ['127.0.0.1'] }

/** Starts and connects a client to which the service has a name, and `first` is where that leads. */
async function nameIt(world, first = here) {
  const { port } = new URL(world.config.wsEndpoint)
  world.config.wsEndpoint = `ws://${host}:${port}`
  const client = await world.create()
  await client.ask('names', { [host]: first })
  await world.connect()
  await world.settle()
}

export default [
  {
    row: '10a',
    fault:
      'the connection is reset; after that, the host name does not resolve: NXDOMAIN for 2 s, then SERVFAIL for 2 s',
    connect: false,
    bound: { recover: 8500, backfill: 2500 },
    seconds: 14,
    async run(world) {
      await nameIt(world)
      const { engine, client, begin, end, pause } = world
      begin()
      await client.ask('names', { [host]: { code: 'ENOTFOUND' } })
      engine.disconnect()
      await pause(2000)
      await client.ask('names', { [host]: { code: 'EAI_AGAIN' } })
      await pause(2000)
      await client.ask('names', { [host]: here })
      end()
      await pause(8000)
    },
  },
  {
    row: '10b',
    fault: 'the service moves to a new address, to which its host name then resolves',
    connect: false,
    bound: { recover: 1500, backfill: 2500, attempts: 1 },
    seconds: 8,
    async run(world) {
      const to = Number(new URL(world.engine.wsEndpoint).port)
      const old = await startTap({ to })
      world.config.wsEndpoint = `ws://127.0.0.1:${old.port}`
      await nameIt(world)
      world.begin()
      const { port } = old
      const moved = await startTap({ to, host: '127.0.0.2', port })
      world.defer(moved.close)
      await world.client.ask('names', { [host]: { addresses: ['127.0.0.2'] } })
      await old.close()
      world.end()
      await world.pause(5000)
    },
  },
  {
    row: '10c',
    fault: 'the connection is reset; after that, the host name takes 3 s to resolve',
    connect: false,
    bound: { recover: 4500, backfill: 2500, attempts: 1 },
    seconds: 11,
    async run(world) {
      await nameIt(world)
      const { engine, client, begin, end, pause } = world
      await client.ask('names', { [host]: { ...here, ms: 3000 } })
      begin()
      engine.disconnect()
      end()
      await pause(8000)
    },
  },
  {
    row: '10d',
    fault:
      'the host name resolves to an IPv4 address, and to an IPv6 address where nothing listens',
    connect: false,
    bound: { attempts: 1 },
    seconds: 3,
    async run(world) {
      await nameIt(world, { addresses: ['::1', '127.0.0.1'] })
      await world.pause(1000)
    },
  },
]
