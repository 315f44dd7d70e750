// What the servers share: a client and a stream that live as long as the server.
import { createClient } from 'sluice'

const { ENDPOINT, WS_ENDPOINT, API_KEY, USER_SECRET, SIGNERS, FEED_ID } = process.env

export const client = createClient({
  ...{ endpoint: ENDPOINT, wsEndpoint: WS_ENDPOINT, apiKey: API_KEY, userSecret: USER_SECRET },
  verify: { signers: JSON.parse(SIGNERS) },
})

const answerOf = ({ observationsTimestamp, decoded }) => ({
  time: observationsTimestamp,
  price: decoded.price.toString(),
})

/** The newest report of the stream. */
let streamed
const stream = client.createStream(FEED_ID)
stream.on('report', report => {
  streamed = report
})
stream.on('error', error => console.error(error))

export const connect = () => stream.connect()
export const latest = async () => answerOf(await client.getLatestReport(FEED_ID))
export const newest = () => (streamed === undefined ? {} : answerOf(streamed))
