// A backend as a page needs one: it holds the keys, reads the engine, and hands the reports out, over HTTP and a WebSocket.
import { createServer } from 'node:http'
import { startDataEngine } from '@sluice/engine'
import { createClient } from 'sluice'
import { WebSocketServer } from 'ws'

const envelope = ({ feedID, fullReport, validFromTimestamp, observationsTimestamp }) =>
  JSON.stringify({ report: { feedID, fullReport, validFromTimestamp, observationsTimestamp } })

/** Starts an engine, and a server of pages in front of it; `pages` answers what is not the relay's. */
export async function startRelay(pages) {
  const engine = await startDataEngine({ intervalMs: 100 })
  const { endpoint, wsEndpoint, apiKey, userSecret, network } = engine
  const feeds = engine.feeds.filter(id => id.startsWith('0x1'))
  const client = createClient({ endpoint, wsEndpoint, apiKey, userSecret })

  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://relay')
    if (pathname.startsWith('/moved/')) response.writeHead(302, { Location: '/' }).end()
    else if (pathname !== '/api/v1/reports/latest') pages(request, response)
    else response.end(envelope(await client.getLatestReport(searchParams.get('feedID'))))
  })
  const sockets = new WebSocketServer({ noServer: true })
  server.on('upgrade', (request, socket, head) => {
    if (request.url.startsWith('/refused/')) socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    else sockets.handleUpgrade(request, socket, head, () => undefined)
  })
  const stream = client.createStream(feeds)
  let count = 0
  stream.on('report', report => {
    const frame = envelope(report)
    // The service sends either, so a page must read both.
    for (const socket of sockets.clients) socket.send(count++ % 2 ? frame : Buffer.from(frame))
  })
  await stream.connect()
  server.listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const { port } = server.address()
  return {
    facts: {
      endpoint: `http://127.0.0.1:${port}`,
      wsEndpoint: `ws://127.0.0.1:${port}`,
      feeds,
      network,
    },
    async close() {
      for (const socket of sockets.clients) socket.terminate()
      server.closeAllConnections()
      server.close()
      await client.close()
      await engine.close()
    },
  }
}
