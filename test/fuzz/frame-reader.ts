// Messages through a whole client, as they come off the wire: whatever reads them there.

import type { SocketEvents } from '../../core/transport/ws.js'
import { createClient, type Report } from '../../index.js'

/** What came of a message: a report, an error, or neither. */
export type Outcome = Report | Error | undefined

/** A stream that is subscribed to these feeds; the function says what it makes of a message. */
export async function openFrameReader(
  feeds: readonly string[],
): Promise<{ read(data: Uint8Array): Outcome; close(): Promise<void> }> {
  let events: SocketEvents | undefined
  let outcomes: (Report | Error)[] = []
  const client = createClient({
    endpoint: 'https://api.example',
    wsEndpoint: 'wss://ws.example',
    plugins: [],
    async connect(_dial, each) {
      events = each
      setTimeout(each.opened, 0)
      const end = (): void => each.ended(1000, undefined)
      return { ping: each.alive, close: end, terminate: end }
    },
  })
  const stream = client.createStream(feeds, { staleAfter: 0 })
  stream.on('report', report => void outcomes.push(report))
  stream.on('error', error => void outcomes.push(error as Error))
  await stream.connect()
  return {
    read(data) {
      outcomes = []
      events?.message(data)
      if (outcomes.length > 1) throw new Error(`a message came to ${outcomes.length} events`)
      return outcomes[0]
    },
    close: () => client.close(),
  }
}
