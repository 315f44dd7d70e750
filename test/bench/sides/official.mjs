// The official SDK.
import { createClient, decodeReport } from '@chainlink/data-streams-sdk'

export const decode = report => decodeReport(report.fullReport, report.feedID)

export async function open({ endpoint, wsEndpoint, feedIDs, haMode, take, fail }) {
  const client = createClient({ apiKey: 'key', userSecret: 'secret', endpoint, wsEndpoint, haMode })
  const stream = client.createStream(feedIDs)
  stream.on('report', take)
  stream.on('error', fail)
  await stream.connect()
  return () => stream.close()
}
