import { createClient } from 'sluice'

let client

/** One client for all requests. */
function getClient() {
  const { ENDPOINT, WS_ENDPOINT, API_KEY, USER_SECRET, SIGNERS } = process.env
  client ??= createClient({
    ...{ endpoint: ENDPOINT, wsEndpoint: WS_ENDPOINT, apiKey: API_KEY, userSecret: USER_SECRET },
    verify: { signers: JSON.parse(SIGNERS) },
    rateLimit: { requests: 1000 },
  })
  return client
}

export const answerOf = ({ observationsTimestamp, decoded }) => ({
  time: observationsTimestamp,
  price: decoded.price.toString(),
})

export const latestReport = () => getClient().getLatestReport(process.env.FEED_ID)
export const createStream = () => getClient().createStream(process.env.FEED_ID)

export async function answerLatest() {
  try {
    return Response.json(answerOf(await latestReport()))
  } catch (error) {
    return Response.json({ error: `${error.stack}\n${error.cause?.stack ?? ''}` })
  }
}
