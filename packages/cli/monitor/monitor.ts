import { randomBytes } from 'node:crypto'
import type { Feed, Stream } from 'sluice/client'
import { VERSION } from 'sluice/client'
import { asyncDispose } from 'sluice/internal'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { isLoopback } from './access.js'
import { createBoard } from './board.js'
import type { MeasuredClient } from './measured-client.js'
import type { MonitorSettings } from './options.js'
import { type PageFiles, readPage } from './page-files.js'
import { createReaders } from './readers.js'
import { startServer } from './server.js'
import { watchStream } from './watch.js'

/** A page that shows a stream. */
export interface Monitor extends AsyncDisposable {
  /** The URL to open, with the token where there is one. */
  readonly url: string
  /** Settles when the stream has ended: rejects where that was by itself. */
  readonly closed: Promise<void>
}

interface ShownSource extends MeasuredClient {
  readonly feeds: readonly Feed[]
  readonly name: string
  readonly wire: string
}

/** Starts a stream that does not give up, and a page that shows it. The page is there before the stream is. */
export async function startMonitor(
  source: ShownSource,
  { stale, ...place }: MonitorSettings,
  { signal }: { readonly signal: AbortSignal },
): Promise<Monitor> {
  const stream = source.client.createStream(
    source.feeds.map(({ feedID }) => feedID),
    { maxReconnectAttempts: Number.POSITIVE_INFINITY, staleAfter: stale * 1000, signal },
  )
  const { url, close } = await monitorOf(source, stream, place)
  stream.connect().catch(() => undefined)
  return {
    url,
    closed: stream.closed,
    async [asyncDispose]() {
      await close()
      await stream.close()
    },
  }
}

/** Serves a page that shows a stream of a measured client; on any free port of loopback unless it is said where. */
export async function monitorOf(
  source: ShownSource,
  stream: Stream<DecodedReport>,
  { host = '127.0.0.1', port = 0, files = readPage() }: MonitorPlace = {},
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const { feeds, name, wire } = source
  const board = createBoard()
  board.put('about', 0, { source: name, version: VERSION, startedAt: Date.now(), wire })
  const readers = createReaders({ board, refresh: () => watch.refresh() })
  const watch = watchStream({ ...source, board, stream, feeds, readers: () => readers.count })
  const token = isLoopback(host) ? undefined : randomBytes(24).toString('base64url')
  const server = await startServer({ host, port, token, files, readers }).catch(error => {
    watch.stop()
    throw error
  })
  return {
    url: urlOf(host, server.port, token),
    async close() {
      await server.close()
      watch.stop()
    },
  }
}

interface MonitorPlace extends Partial<Pick<MonitorSettings, 'host' | 'port'>> {
  /** @default those that the build has made */
  readonly files?: PageFiles
}

/** The token is in the fragment, which a browser sends to nobody. */
function urlOf(host: string, port: number, token: string | undefined): string {
  const name = host.includes(':') ? `[${host}]` : host
  return `http://${name}:${port}/${token === undefined ? '' : `#token=${token}`}`
}
