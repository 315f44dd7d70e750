// Connections that don't come about.
import { knownFeeds } from 'sluice'
import { tryToConnect } from '../harness/attempt.mjs'
import { startCommand } from '../harness/command.mjs'

export default [
  {
    row: '7a',
    fault: 'one of two origins never answers the upgrade request',
    engine: { origins: 2 },
    config: { haMode: true },
    connect: false,
    bound: { connect: 5000 },
    seconds: 6,
    prepare: ({ engine }) => engine.origins[1].blackhole(true),
    async run(world) {
      await tryToConnect(world)
      world.engine.resume()
      await world.pause(5000)
    },
  },
  {
    row: '7b',
    fault: 'for 7 s, the service answers no upgrade request',
    connect: false,
    bound: { connect: 7500, attempts: 2 },
    seconds: 14,
    prepare: ({ engine }) => engine.blackhole(true),
    async run(world) {
      const { engine, pause } = world
      let over
      await tryToConnect(world, () => {
        over = pause(7000).then(() => engine.blackhole(false))
      })
      await over
      engine.resume()
      await pause(4000)
    },
  },
  {
    row: '15',
    fault: 'one of two origins answers its first upgrade request with 503',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { connections: [2, 2] },
    seconds: 5,
    short: true,
    prepare: ({ engine }) => engine.origins[1].refuse(503, 1),
    async run({ engine, measured, pause }) {
      await pause(5000)
      measured.connections = engine.connections
    },
  },
  {
    row: '35',
    fault: 'the service is down at the start, and comes back after `connect` has rejected',
    options: { maxReconnectAttempts: 2, reconnectInterval: 200 },
    connect: false,
    bound: { rejected: 5000, attempts: 3, delivered: 0, lost: undefined },
    seconds: 12,
    short: true,
    prepare: ({ engine }) => engine.stop(),
    async run(world) {
      await tryToConnect(world)
      await world.engine.start()
      world.engine.resume()
      await world.pause(5000)
    },
  },
  {
    row: '35b',
    fault:
      'the service is down for 6 s from the start of `sluice stream ETH/USD BTC/USD --max-reconnects unlimited`',
    connect: false,
    official: false,
    feedSpecs: () => [knownFeeds.testnet['ETH/USD'].feedID, knownFeeds.testnet['BTC/USD'].feedID],
    prepare: ({ engine }) => engine.stop(),
    bound: { recover: 9000, exitCode: 0 },
    seconds: 20,
    async run(world) {
      const { engine, measured, begin, end, pause, until } = world
      world.feeds = [...engine.feeds]
      begin()
      const command = startCommand(world, [
        ...['stream', 'ETH/USD', 'BTC/USD'],
        ...['--max-reconnects', 'unlimited'],
      ])
      await pause(6000)
      await engine.start()
      end()
      engine.resume()
      await until(() => command.reports.length >= 4, 12_000)
      await pause(3000)
      engine.pause()
      await pause(500)
      measured.exitCode = await command.stop()
    },
  },
]
