// A worker at the edge. KEEPS says how long its client lives: `module`, `first` (made with the first request) or `request`.
// Its limit is the default one where IS_LIMITED.
import { env } from 'cloudflare:workers'
import { createClient } from 'sluice'
import { connect } from './docs/connect.js'

const create = () =>
  createClient({
    ...{ apiKey: env.API_KEY, userSecret: env.USER_SECRET },
    ...{ endpoint: env.ENDPOINT, wsEndpoint: env.WS_ENDPOINT },
    connect,
    verify: { signers: JSON.parse(env.SIGNERS) },
    ...(IS_LIMITED ? {} : { rateLimit: { requests: 100_000 } }),
    retryAttempts: 0,
    timeout: 10_000,
  })
const answerOf = ({ observationsTimestamp, decoded }) => ({
  time: observationsTimestamp,
  price: decoded.price.toString(),
})

async function readStream(client) {
  const stream = client.createStream(env.FEED_ID)
  const reports = []
  for await (const report of stream) {
    reports.push(answerOf(report))
    if (reports.length === 5) break
  }
  await stream.close()
  return { reports }
}

let kept = KEEPS === 'module' ? create() : undefined

function getClient() {
  if (KEEPS === 'request') return create()
  kept ??= create()
  return kept
}

export default {
  async fetch(request) {
    try {
      const client = getClient()
      const isStream = new URL(request.url).pathname === '/stream'
      const answer = isStream
        ? await readStream(client)
        : answerOf(await client.getLatestReport(env.FEED_ID))
      if (KEEPS === 'request') await client.close()
      return Response.json(answer)
    } catch (error) {
      const cause = error.cause ? `\ncaused by ${error.cause.stack}` : ''
      return Response.json({ error: `${error.stack}${cause}` })
    }
  },
}
