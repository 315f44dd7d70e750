// The service lets somebody in no more, or not so soon.
import { tryToConnect } from '../harness/attempt.mjs'

const stream = '/api/v1/ws'

const withoutSecond = feeds => feeds.map((feedID, at) => ({ feedID, entitled: at !== 1 }))

/** The list has the first feed only: custom and hidden feeds are not in it, and may be read. */
function hideOthers({ engine, feeds: [feedID] }) {
  const body = JSON.stringify({ feeds: [{ feedID }] })
  engine.fail({ status: 200, path: '/api/v1/feeds', times: Number.POSITIVE_INFINITY, body })
}

/** Streams what may be read, and sees whether the feed that may not be is named, and no other. */
async function streamTheOthers(world) {
  const { engine, feeds, measured, pause } = world
  const [first, second, third] = feeds
  world.ignore = ({ feedID }) => feedID === second
  await tryToConnect(world)
  engine.resume()
  await pause(3000)
  const names = ({ value }, feedID) => value.message.includes(feedID)
  const errors = world.client.of('error').filter(error => names(error, second))
  measured.isNamed =
    errors.length > 0 && !errors.some(error => names(error, first) || names(error, third))
}

export default [
  {
    row: '11a',
    fault: 'the client starts with a wrong secret, and the service answers 401',
    config: { userSecret: 'the-secret-of-somebody-else' },
    connect: false,
    bound: { refusedAs: 'AuthenticationError', rejected: 2000, attempts: 1, lost: undefined },
    seconds: 4,
    async run(world) {
      await tryToConnect(world)
      await world.pause(2000)
    },
  },
  {
    row: '11b',
    fault: 'one of two origins resets its connection, and answers 401 for 60 s after that',
    engine: { origins: 2 },
    config: { haMode: true },
    // Each refusal is followed by the question whether its feeds may be read, and by one more attempt where they may.
    bound: { attempts: 4, pages: 0 },
    seconds: 60,
    async run({ engine, begin, pause }) {
      begin()
      engine.origins[1].refuse(401)
      engine.origins[1].disconnect()
      await pause(60_000)
    },
  },
  {
    row: '11c',
    fault:
      'the connection is reset, and the service answers 401 for 8 s, so the client tries once a minute; option `maxReconnectAttempts: Infinity`',
    feeds: 3,
    options: { maxReconnectAttempts: Number.POSITIVE_INFINITY },
    bound: { recover: 64_000, backfill: 4000, attempts: 5 },
    seconds: 72,
    async run({ engine, begin, end, pause }) {
      begin()
      engine.origins[0].refuse(401)
      engine.disconnect()
      await pause(8000)
      engine.origins[0].refuse(undefined)
      end()
      await pause(63_000)
    },
  },
  {
    row: '11d',
    fault:
      'the keys change while reports arrive, and then the connection is reset; option `renewCredentials`',
    client: { renews: true },
    bound: { recover: 3000, backfill: 2500, attempts: 2 },
    seconds: 8,
    async run({ client, engine, begin, end, pause }) {
      const keys = { apiKey: 'the-new-key', userSecret: 'the-new-user-secret' }
      begin()
      await client.ask('keys', keys)
      engine.rotateKeys(keys)
      engine.disconnect()
      end()
      await pause(7000)
    },
  },
  {
    row: '12a',
    fault:
      'the key may not read one of 15 feeds, so the service answers the upgrade request with 401',
    connect: false,
    bound: { connect: 2000, attempts: 2, errors: 1, isNamed: true, refusedAs: undefined },
    seconds: 4,
    feedSpecs: withoutSecond,
    run: streamTheOthers,
  },
  {
    row: '12b',
    fault: 'as row 12a, with two origins',
    engine: { origins: 2 },
    config: { haMode: true },
    connect: false,
    bound: { connect: 2000, attempts: 4, errors: 1, isNamed: true, refusedAs: undefined },
    seconds: 4,
    feedSpecs: withoutSecond,
    run: streamTheOthers,
  },
  {
    row: '12c',
    fault:
      'the key may not read one of 8 feeds (401 as in row 12a); the service lists only one of the other 7 feeds',
    feeds: 8,
    connect: false,
    bound: { connect: 3000, attempts: 2, errors: [1, 1], isNamed: true, refusedAs: undefined },
    seconds: 5,
    short: true,
    feedSpecs: withoutSecond,
    prepare: hideOthers,
    run: streamTheOthers,
  },
  {
    row: '12d',
    fault:
      'at the start, the service answers 401 once by mistake; its list of feeds names only one of the 8 feeds',
    feeds: 8,
    connect: false,
    bound: { connect: 3000, attempts: 2, errors: 0, refusedAs: undefined },
    seconds: 5,
    prepare(world) {
      hideOthers(world)
      world.engine.origins[0].refuse(401, 1)
    },
    async run(world) {
      await tryToConnect(world)
      world.engine.resume()
      await world.pause(3000)
    },
  },
  {
    row: '12e',
    fault:
      'the connection is reset, and the service answers 401 once by mistake; its list of feeds names only one of the 8 feeds',
    feeds: 8,
    bound: { recover: 4000, attempts: 2, errors: 0 },
    seconds: 9,
    short: true,
    prepare: hideOthers,
    async run({ engine, begin, end, pause }) {
      begin()
      engine.origins[0].refuse(401, 1)
      engine.disconnect()
      end()
      await pause(7000)
    },
  },
  {
    row: '13a',
    fault:
      'the connection is reset; the service answers the next upgrade request with 429 and a `Retry-After` of 3 s',
    bound: { inside: 0, attempts: 2 },
    seconds: 8,
    async run({ engine, measured, begin, end, pause }) {
      begin()
      engine.fail({ status: 429, retryAfter: 3, path: stream })
      engine.disconnect()
      end()
      await pause(8000)
      const upgrades = engine.requests().filter(({ path }) => path.startsWith(stream))
      const asked = upgrades.find(({ status }) => status === 429)
      const isInside = ({ at }) => asked !== undefined && at > asked.at && at < asked.at + 3000
      measured.inside = upgrades.filter(isInside).length
    },
  },
  {
    row: '13b',
    fault:
      'the service answers requests with 429; `Retry-After` is 2 s, a date, a day, -5, or missing',
    isREST: true,
    connect: false,
    bound: { inside: 0, untyped: 0 },
    seconds: 20,
    async run({ create, engine, feeds, measured }) {
      const client = await create()
      engine.publish(feeds[0])
      const inSeconds = ms => new Date(Math.ceil((Date.now() + ms) / 1000) * 1000).toUTCString()
      const windows = [
        [() => 2, 2000],
        [() => inSeconds(2000), 2000],
        [() => undefined, 0],
        [() => 86_400, 86_400_000],
        [() => -5, 0],
      ]
      Object.assign(measured, { inside: 0, untyped: 0, answered: 0 })
      for (const [ask, windowMs] of windows) {
        const retryAfter = ask()
        const before = engine.requests().length
        engine.fail({ status: 429, ...(retryAfter === undefined ? {} : { retryAfter }) })
        const { error } = await client.ask('call', { method: 'getLatestReport', args: [feeds[0]] })
        if (error === undefined) measured.answered++
        else if (!error.isOwn) measured.untyped++
        const [first, ...again] = engine.requests().slice(before)
        measured.inside += again.filter(({ at }) => at < first.at + windowMs).length
      }
    },
  },
]
