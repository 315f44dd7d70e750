// Frames that are no report, or not the one they say they are.
import { frameOf, startTap, textOf } from '../harness/tap.mjs'

const malformed = [
  '{"report":',
  'garbage',
  '',
  '[]',
  'null',
  '7',
  '{"report":null}',
  '{"report":{}}',
  '{"report":{"feedID":7,"fullReport":"0x","validFromTimestamp":"a"}}',
  '['.repeat(100_000),
  new Uint8Array([0xff, 0xfe, 0x00]),
]

const text = 'x'.repeat(1000)
/** What breaks the protocol of WebSocket itself. */
const violations = {
  'invalid UTF-8': frameOf([0xff, 0xff]),
  'RSV bits': frameOf(text, { rsv: 7 }),
  'an unknown opcode': frameOf(text, { opcode: 5 }),
  'a frame of 2^40 bytes': frameOf(text, { length: 2 ** 40 }),
  'a message of 8 MB in pieces': Buffer.concat([
    frameOf(text, { isFinal: false }),
    ...Array.from({ length: 8000 }, () => frameOf(text, { opcode: 0, isFinal: false })),
  ]),
}

/** Encodings of a report that break a rule: each of the first words, and each length, made something else. */
function mutantsOf({ fullReport }) {
  const words = fullReport.slice(2).match(/.{64}/g)
  const values = [0n, 1n, 32n, 1n << 255n, (1n << 256n) - 1n, BigInt(words.length) * 32n]
  const structural = words
    .map((word, at) => ({ word, at }))
    .filter(({ word, at }) => at >= 3 && /^0{58}/.test(word) && !/^0+$/.test(word))
  return structural.slice(0, 12).flatMap(({ word, at }) =>
    values
      .map(value => value.toString(16).padStart(64, '0'))
      .filter(value => value !== word)
      .map(value => `0x${[...words.slice(0, at), value, ...words.slice(at + 1)].join('')}`),
  )
}

/** A report of each feed that nobody is owed: neither streamed nor stored, and from before the stream. */
function prepare(world) {
  const { engine } = world
  world.apart = engine.feeds.map(feedID =>
    engine.publish(feedID, {}, { streamed: false, stored: false }),
  )
}

export default [
  {
    row: '17a',
    fault: 'the service sends messages that are not JSON, or JSON without a report',
    bound: { attempts: 0, errors: [malformed.length, malformed.length] },
    seconds: 4,
    async run({ engine, begin, pause }) {
      begin()
      for (const frame of malformed) {
        engine.send(frame)
        await pause(50)
      }
      await pause(2500)
    },
  },
  {
    row: '17b',
    fault: 'as row 17a, but the client has no listener for `error`',
    client: { isDeaf: true },
    bound: { attempts: 0 },
    seconds: 4,
    short: true,
    async run({ engine, begin, pause }) {
      begin()
      for (const frame of malformed) engine.send(frame)
      await pause(3000)
    },
  },
  {
    row: '17c',
    fault: `the service sends, 4 s apart: ${Object.keys(violations).join(', ')}`,
    // Invalid UTF-8 costs its message, each of the others the connection.
    bound: { attempts: [4, 4] },
    seconds: 22,
    async prepare(world) {
      world.tap = await startTap({ to: Number(new URL(world.engine.wsEndpoint).port) })
      world.defer(world.tap.close)
      world.config.wsEndpoint = `ws://127.0.0.1:${world.tap.port}`
    },
    async run({ tap, begin, pause }) {
      begin()
      for (const bytes of Object.values(violations)) {
        tap.inject(bytes)
        await pause(4000)
      }
    },
  },
  {
    row: '18',
    fault:
      'the service sends a report of a feed without a subscription, and reports whose envelope has a wrong feed id or wrong times',
    feeds: 2,
    subscribed: 1,
    bound: { errors: [4, 4], attempts: 0 },
    seconds: 4,
    short: true,
    prepare,
    async run({ engine, feeds, apart, begin, pause }) {
      begin()
      const [mine] = feeds
      const [own, foreign] = apart
      engine.send(textOf(foreign), mine)
      engine.send(textOf(foreign, { feedID: mine }), mine)
      engine.send(textOf(own, { observationsTimestamp: own.observationsTimestamp + 1 }), mine)
      engine.send(textOf(own, { validFromTimestamp: own.validFromTimestamp - 1 }), mine)
      await pause(2500)
    },
  },
  {
    row: '19a',
    fault:
      'the service sends reports in encodings that break a rule: offsets that go backwards or beyond the end, and lengths of 2^256',
    bound: { unrefused: 0, attempts: 0 },
    seconds: 7,
    prepare,
    async run({ engine, client, feeds, apart, measured, begin, pause }) {
      begin()
      const [feed] = feeds
      const [report] = apart
      const mutants = mutantsOf(report)
      // Of more than 16 a second, sluice counts the others in one error.
      for (const [index, fullReport] of mutants.entries()) {
        if (index > 0 && index % 15 === 0) await pause(1200)
        engine.send(textOf(report, { fullReport }), feed)
      }
      await pause(2500)
      measured.unrefused = mutants.length - client.of('error').length
    },
  },
  {
    row: '19b',
    fault:
      'every third frame arrives with one to four bytes changed; without `verify`, so the client delivers changed values',
    feeds: 30,
    bound: { attempts: 0, foreign: undefined },
    seconds: 8,
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
    row: '22',
    fault:
      'the service sends a signed report dated in the year 2096, and envelopes with the times 0, -1, 2^53 and 1e300',
    bound: { attempts: 0 },
    seconds: 5,
    short: true,
    prepare,
    async run({ engine, feeds, apart, begin, end, pause }) {
      const [feed] = feeds
      const [report] = apart
      begin()
      engine.publish(feed, { observationsTimestamp: 4_000_000_000 }, { stored: false })
      for (const observationsTimestamp of [0, -1, 2 ** 53, 1e300])
        engine.send(textOf(report, { observationsTimestamp }), feed)
      end()
      await pause(4000)
    },
  },
]
