// This library: `createClient` and its default preset, or that of high availability.
import { createClient } from 'sluice'

export const decode = report => report.decoded

export async function open({ endpoint, wsEndpoint, feedIDs, haMode, take, fail }) {
  const client = createClient({ apiKey: 'key', userSecret: 'secret', endpoint, wsEndpoint, haMode })
  const stream = client.createStream(feedIDs)
  stream.on('report', take)
  stream.on('error', fail)
  stream.on('gap', ({ cause }) => fail(new Error(`a gap: ${cause}`)))
  await stream.connect()
  return () => client.close()
}
