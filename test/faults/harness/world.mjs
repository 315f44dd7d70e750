// What a row acts in: an engine, the client of one SDK in a process of its own, and the account of what happened.
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startDataEngine } from '@sluice/engine'
import { startClient } from './client.mjs'
import { lostReports } from './figures.mjs'
import { seededRandom } from './random.mjs'
import { pause, until } from './waiting.mjs'

const feedIDs = count =>
  Array.from({ length: count }, (_, i) => `0x0003${(i + 1).toString(16).padStart(60, '0')}`)

/** Starts an engine for a row. It publishes nothing yet, and there is no client. */
export async function createWorld(row, sdk, seed) {
  // A feed publishes once a second; a row that publishes by itself needs fewer feeds.
  const feeds = feedIDs(row.feeds ?? (row.engine?.intervalMs === 0 ? 3 : 15))
  const engine = await startDataEngine({
    feeds: row.feedSpecs?.(feeds) ?? feeds,
    intervalMs: 1000,
    history: 0,
    compression: false,
    seed,
    // The port of an engine that is gone may be given to another row's, which must not take its clients for its own.
    apiKey: randomUUID(),
    userSecret: randomUUID(),
    ...row.engine,
  })
  engine.pause()
  const deferred = []
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const world = {
    isOurs: sdk === 'sluice',
    engine,
    /** What is subscribed to. */
    feeds: feeds.slice(0, row.subscribed ?? feeds.length),
    /** All clients there have been; `client` is the latest. */
    clients: [],
    client: undefined,
    /** What clients are given: configuration, stream options and environment. */
    config: { apiKey, userSecret, endpoint, wsEndpoint, ...row.config },
    options: row.options,
    env: {},
    seed,
    /** From 0 to 1, the same for the same seed and row. */
    random: seededRandom(seed, row.row),
    /** Figures that the row takes itself. */
    measured: {},
    since: Date.now(),
    /** How many reports there were when the client had connected, where the row says so: what comes later is owed. */
    followed: undefined,
    began: undefined,
    ended: undefined,
    /** Which reports of the ledger are nobody's due. */
    ignore: () => false,
    /** The fault begins. */
    begin() {
      world.began = Date.now()
    },
    /** The fault is over: what can be had from here on is to be had again. */
    end() {
      world.ended = Date.now()
    },
    pause,
    until,
    lost: () => lostReports(world),
    /** Starts a client that does not connect yet; those of before stay in the account. */
    async create(more) {
      const client = await startClient(row.program ?? sdk, world.env)
      world.defer(client.kill)
      world.client = client
      world.clients.push(client)
      const { config, options } = world
      await client.ask('create', { config, options, feeds: world.feeds, ...row.client, ...more })
      return client
    },
    async connect() {
      await world.client.ask('connect', row.client, 30_000)
    },
    /** Publishes, until every feed has been heard of: what is missing counts from there. */
    async settle() {
      await until(() => engine.connections >= engine.origins.length, 3000)
      engine.resume()
      const { client } = world
      const received = () => new Set(client.reports.map(({ feedID }) => feedID)).size
      await until(() => received() >= world.feeds.length, 8000)
      await pause(300)
      world.before = await client.ask('sample')
    },
    /** A folder of the row's own. */
    folder() {
      const folder = mkdtempSync(join(tmpdir(), 'sluice-faults-'))
      world.defer(() => rmSync(folder, { recursive: true, force: true }))
      return folder
    },
    /** Has something done when the row has ended, the latest first. */
    defer: task => deferred.unshift(task),
  }
  async function close() {
    for (const task of deferred) await task()
    await engine.close()
  }
  return { world, close }
}
