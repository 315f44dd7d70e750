// The same tests for both environments of the engine: `engine` is the global that they start.
const { createClient } = require('sluice')

function check(isTrue, what) {
  if (!isTrue) throw new Error(what)
}

function createClientOf({ apiKey, userSecret, endpoint, wsEndpoint }) {
  return createClient({ apiKey, userSecret, endpoint, wsEndpoint })
}

module.exports = function suite({ test, useFakeTimers, advance, useRealTimers }) {
  test('engine: options', () => {
    check(engine.feeds.length === 1, `there are ${engine.feeds.length} feeds`)
  })

  test('engine: request', async () => {
    const client = createClientOf(engine)
    const [feed] = engine.feeds
    const { fullReport } = engine.publish(feed)
    const latest = await client.getLatestReport(feed)
    check(latest.fullReport === fullReport, 'another report came')
    await client.close()
  })

  test('engine: fake timers', async () => {
    useFakeTimers()
    // What was published by hand may be dated ahead of the clock.
    advance(5000)
    engine.resume()
    const client = createClientOf(engine)
    const stream = client.createStream(engine.feeds)
    await stream.connect()
    const start = Date.now()
    advance(3000)
    for (const ms of [1000, 2000, 3000]) {
      const { observationsTimestamp: time } = await stream.read()
      check(time === Math.floor((start + ms) / 1000), `after ${ms} ms a report is of ${time}`)
    }
    await client.close()
    useRealTimers()
  })
}
