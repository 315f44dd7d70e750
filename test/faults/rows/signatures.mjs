// Reports that are not signed as they should be.
import { startDataEngine } from '@sluice/engine'
import { eachTick, feedsOf } from '../harness/feed.mjs'

const forgeries = [
  ...['signature', 'signer', 'digest', 'few', 'repeated', 'high-s', 'v', 'context', 'value'],
]

/** Tells the client who may sign: the signers of now, and those of after a rotation. */
async function prepare(world) {
  const { seed, config } = world
  const twin = await startDataEngine({ seed, feeds: world.feeds, intervalMs: 0, history: 0 })
  twin.rotate()
  config.verify = { signers: twin.networks }
  await twin.close()
}

const refusalsOf = client =>
  client.of('error').filter(({ value }) => value.code === 'VERIFICATION').length

/** Reports come faster than they can be verified for two seconds: 40 times ten feeds. */
async function fallBehind(world) {
  const { engine, isOurs, measured, until } = world
  const client = await world.create()
  await world.connect()
  await until(() => engine.connections > 0)
  const statuses = type => client.of('status').filter(({ value }) => value.type === type)
  const feeds = feedsOf(world, 60)
  world.begin()
  await eachTick(80, 25, () => feeds.map(feed => feed.publish()))
  if (!isOurs) return world.pause(5000)
  await until(() => statuses('caught-up').length > 0, 40_000)
  measured.behind = statuses('behind').length
  measured.waiting = statuses('behind')[0]?.value.waiting
}

export default [
  {
    row: '38a',
    fault: `with \`verify\`, the service sends each of these kinds of forgery for a second: ${forgeries.join(', ')}`,
    bound: { errors: [60, 200], untyped: 0, conflicts: 0, attempts: 0 },
    seconds: 16,
    prepare,
    async run({ engine, client, measured, begin, end, pause }) {
      const [origin] = engine.origins
      begin()
      for (const how of forgeries) {
        origin.forge(how)
        await pause(1000)
        origin.forge(undefined)
        await pause(400)
      }
      end()
      await pause(3000)
      measured.untyped = client.of('error').length - refusalsOf(client)
      measured.conflicts = client.of('conflict').length
    },
  },
  {
    row: '38b',
    fault:
      'one of two origins sends a forgery of every report before the other origin sends the report; with `verify`',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { conflicts: 0, pages: 0, untyped: 0 },
    seconds: 8,
    short: true,
    prepare,
    async run({ engine, client, measured, begin, end, pause }) {
      const [liar, honest] = engine.origins
      begin()
      liar.forge('value')
      honest.delay(100)
      await pause(4000)
      liar.forge(undefined)
      end()
      await pause(1000)
      measured.untyped = client.of('error').length - refusalsOf(client)
      measured.conflicts = client.of('conflict').length
    },
  },
  {
    row: '38c',
    fault:
      'the stream omits three reports, and REST has only forgeries of these reports; with `verify`',
    // A gap is announced once the present has passed it, so no report may be dated later.
    feeds: 3,
    // Of each, the one that comes by REST is asked for four times.
    bound: { gaps: [3, 3], errors: [3, 12] },
    seconds: 14,
    prepare,
    async run({ engine, feeds, begin, end, pause }) {
      begin()
      for (const feed of feeds) engine.publish(feed, {}, { streamed: false, forged: 'signer' })
      end()
      await pause(13_000)
    },
  },
  {
    row: '38d',
    fault: 'the signers of the network change, and `verify` knows the new signers',
    bound: { errors: 0, attempts: 0, pages: 0 },
    seconds: 4,
    prepare,
    async run({ engine, begin, end, pause }) {
      await pause(1500)
      begin()
      engine.rotate()
      end()
      await pause(2000)
    },
  },
  {
    row: '38e',
    fault: 'every third frame arrives with one to four bytes changed; with `verify`',
    feeds: 30,
    bound: { attempts: 0, foreign: 0 },
    seconds: 8,
    prepare,
    async run({ engine, begin, end, pause }) {
      begin()
      engine.origins[0].corrupt(0.33)
      await pause(5000)
      engine.origins[0].corrupt(0)
      end()
      await pause(3000)
    },
  },
  {
    row: '38f',
    fault:
      'for 2 s, 400 reports with six signatures each arrive every second, more than noble can verify',
    feeds: 10,
    engine: { intervalMs: 0, f: 5, nodes: 16 },
    bound: { behind: [1, 3], waiting: [20, 800], attempts: 0, pages: 0 },
    seconds: 20,
    connect: false,
    prepare({ config, engine }) {
      config.verify = { signers: engine.networks, curveLibrary: 'noble', workers: 1 }
    },
    run: fallBehind,
  },
]
