// What runs in the page: bundled as a user bundles it, for a browser. It is of another origin than the gateway.
import {
  allDecoders,
  bearerAuth,
  continuity,
  createClient,
  decoders,
  dedup,
  isStreamsError,
  retry,
  verify,
} from 'sluice'

function check(isTrue, what) {
  if (!isTrue) throw new Error(what)
}

async function failureOf(promise) {
  return promise.then(
    () => new Error('it was expected to fail'),
    error => error,
  )
}

async function withClient({ endpoint, wsEndpoint, network }, token, use) {
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [
      decoders(...allDecoders),
      continuity(),
      dedup(),
      verify({ signers: network }),
      retry(),
      bearerAuth({ token }),
    ],
  })
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}

/** Reports of a feed without one missing, in order of their times. */
function checkWhole(reports) {
  const sorted = reports.toSorted((a, b) => a.observationsTimestamp - b.observationsTimestamp)
  for (const [at, { validFromTimestamp }] of sorted.entries())
    if (at > 0) {
      const before = sorted[at - 1].observationsTimestamp
      check(validFromTimestamp === before + 1, `after ${before} comes ${validFromTimestamp}`)
    }
}

const checksOf = facts => ({
  async 'streams, and verifies by itself'() {
    let asked = 0
    async function getToken() {
      asked++
      return facts.token
    }
    await withClient(facts, getToken, async client => {
      const listed = (await client.listFeeds()).map(({ feedID }) => feedID)
      check(String(listed) === String(facts.feeds), `lists ${listed}`)
      const { decoded } = await client.getLatestReport(facts.feeds[0])
      check(decoded.feedID === facts.feeds[0], 'of another feed')
      const stream = client.createStream(facts.feeds)
      let count = 0
      for await (const report of stream) {
        check(facts.feeds.includes(report.decoded.feedID), 'of another feed')
        if (++count === 20) break
      }
      check(stream.getMetrics().verified >= 20, 'not verified')
      await stream.close()
      check(asked >= 3, `asked ${asked} times for the token`)
    })
  },
  async 'misses nothing while the gateway is away'() {
    await withClient(facts, facts.token, async client => {
      const [feedID] = facts.feeds
      const stream = client.createStream(feedID, { maxReconnectAttempts: 100 })
      const reports = []
      const gaps = []
      stream.on('report', report => reports.push(report))
      stream.on('gap', gap => gaps.push(gap))
      stream.on('error', () => undefined)
      await stream.connect()
      const enough = count =>
        new Promise(resolve => {
          stream.on('report', () => reports.length >= count && resolve())
        })
      await enough(5)
      await fetch('/restart', { method: 'POST' })
      const { length } = reports
      await enough(length + 30)
      // What was missed comes a little later.
      while (stream.getMetrics().backfilled === 0) await enough(reports.length + 1)
      await enough(reports.length + 20)
      await stream.close()
      check(gaps.length === 0, JSON.stringify(gaps))
      checkWhole(reports)
    })
  },
  async 'has to have a token'() {
    await withClient(facts, 'another-token', async client => {
      const refused = await failureOf(client.getLatestReport(facts.feeds[0]))
      check(isStreamsError(refused, 'AUTHENTICATION'), `${refused}`)
      check(/the token is unknown, or has expired/.test(refused.message), refused.message)
      const stream = client.createStream(facts.feeds, {
        maxReconnectAttempts: 1,
        reconnectInterval: 10,
      })
      const error = await failureOf(stream.connect())
      check(isStreamsError(error, 'WS_GAVE_UP'), `${error}`)
    })
  },
  async 'reads why a request is rejected'() {
    await withClient(facts, facts.token, async client => {
      const error = await failureOf(client.getLatestReport(`0x1003${'f'.repeat(60)}`))
      check(error.statusCode === 404, `${error}`)
    })
  },
})

const wrongOrigin = facts => ({
  async 'of another origin gets nothing'() {
    await withClient(facts, facts.token, async client => {
      const refused = await failureOf(client.getLatestReport(facts.feeds[0]))
      check(isStreamsError(refused, 'API_NETWORK'), `${refused}`)
      const stream = client.createStream(facts.feeds, {
        maxReconnectAttempts: 1,
        reconnectInterval: 10,
      })
      const error = await failureOf(stream.connect())
      check(isStreamsError(error, 'WS_GAVE_UP'), `${error}`)
    })
  },
})

const facts = await (await fetch('/facts')).json()
const isWrong = location.hostname === 'localhost'
const results = []
for (const [name, run] of Object.entries(isWrong ? wrongOrigin(facts) : checksOf(facts))) {
  let error
  try {
    await run()
  } catch (thrown) {
    error = String(thrown?.stack ?? thrown)
  }
  results.push({ name, error })
}
await fetch('/results', { method: 'POST', body: JSON.stringify(results) })
