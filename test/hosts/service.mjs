// The service that all hosts ask: an engine in this process, whose prices are known.
import assert from 'node:assert/strict'
import { startDataEngine } from '@sluice/engine'

/** A feed in milliseconds, so that it has a report ten times a second. */
const feed = '0x100359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const INTERVAL = 100
/** One in seconds, for the official SDK, which knows no others. */
const slowPrice = 3210n * 10n ** 18n
const slowFeed = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'

/** Starts it. Programs are given `env`, and what they answer is for `check`. */
export async function startService() {
  const engine = await startDataEngine({
    feeds: [
      { feedID: feed, intervalMs: 0 },
      { feedID: slowFeed, intervalMs: 1000, fields: { price: slowPrice } },
    ],
    history: 1,
  })
  const { endpoint, wsEndpoint, apiKey, userSecret, network } = engine
  /** The price of each report, by its time. */
  const prices = new Map()
  let newest = 0

  function publish() {
    const price = BigInt(1000 + Math.floor(Math.random() * 9000)) * 10n ** 18n
    newest = engine.publish(feed, { price }).observationsTimestamp
    prices.set(newest, price.toString())
  }
  publish()
  const timer = setInterval(publish, INTERVAL)

  /** The price in an answer is that of its time. */
  function check(answer) {
    if (answer.error !== undefined) throw new Error(answer.error)
    assert.equal(answer.price, prices.get(answer.time), `of the time ${answer.time}`)
    return answer
  }

  return {
    engine,
    /** For programs: of the environment, as users have it. */
    env: {
      ENDPOINT: endpoint,
      WS_ENDPOINT: wsEndpoint,
      API_KEY: apiKey,
      USER_SECRET: userSecret,
      SIGNERS: JSON.stringify(network),
      FEED_ID: feed,
      SLOW_FEED_ID: slowFeed,
      PUBLISHED: engine.ledger().find(({ feedID }) => feedID === slowFeed).fullReport,
      PUBLISHED_PRICE: slowPrice.toString(),
    },
    check,
    /** What `ask` answers is right, and as new as what there was when it was asked. */
    async checkNewest(ask) {
      const before = newest
      const answer = check(await ask())
      assert.ok(answer.time >= before, `the report is ${before - answer.time} ms too old`)
    },
    /** The reports of a stream are right, and follow each other. */
    checkStream(answer, count) {
      if (answer.error !== undefined) throw new Error(answer.error)
      assert.ok(answer.reports.length >= count, `${answer.reports.length} reports came`)
      answer.reports.forEach(check)
      const times = answer.reports.map(({ time }) => time)
      const published = [...prices.keys()]
      const first = published.indexOf(times[0])
      assert.deepEqual(times, published.slice(first, first + times.length))
    },
    async close() {
      clearInterval(timer)
      await engine.close()
    },
  }
}
