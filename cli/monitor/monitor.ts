import { randomBytes } from 'node:crypto'
import { VERSION } from '../../core/version.js'
import { isLoopback } from './access.js'
import { createBoard } from './board.js'
import type { PageFiles } from './page-files.js'
import { createReaders } from './readers.js'
import { startServer } from './server.js'
import type { Measured } from './sources.js'
import { watchStream } from './watch.js'

/** What is monitored, and where the page is. */
export interface MonitorOptions extends Measured {
  /** The feeds; none are all that may be read. */
  readonly feedIDs: readonly string[]
  /** What is watched, in words. */
  readonly source: string
  readonly wire: string
  readonly host: string
  readonly port: number
  /** Milliseconds after which a feed is stale. */
  readonly staleAfter: number
  readonly signal: AbortSignal
  readonly files: PageFiles
}

/** A monitor that runs. */
export interface Monitor {
  /** The URL to open, with the token where there is one. */
  readonly url: string
  /** Settles when the stream has ended: rejects where that was by itself. */
  readonly closed: Promise<void>
  close(): Promise<void>
}

/** Starts a stream, and a page that shows it. The page is there before the stream is. */
export async function startMonitor(options: MonitorOptions): Promise<Monitor> {
  const { client, counts, ages, host, port, staleAfter, signal, source, wire, files } = options
  const listed = options.feedIDs.length === 0 ? await client.listFeeds({ signal }) : []
  const feedIDs = options.feedIDs.length === 0 ? listed.map(feed => feed.feedID) : options.feedIDs
  const stream = client.createStream(feedIDs, {
    maxReconnectAttempts: Number.POSITIVE_INFINITY,
    staleAfter,
    signal,
  })
  const board = createBoard()
  const readers = createReaders({ board, refresh: () => watch.refresh() })
  board.put('about', 0, { source, version: VERSION, startedAt: Date.now(), wire })
  const watch = watchStream({
    board,
    client,
    stream,
    counts,
    ages,
    listed,
    readers: () => readers.count,
  })
  const token = isLoopback(host) ? undefined : randomBytes(24).toString('base64url')
  const server = await startServer({ host, port, token, files, readers })
  stream.connect().catch(() => undefined)
  return {
    url: urlOf(host, server.port, token),
    closed: stream.closed,
    async close() {
      watch.stop()
      await stream.close()
      await server.close()
    },
  }
}

/** The token is in the fragment, which a browser sends to nobody. */
function urlOf(host: string, port: number, token: string | undefined): string {
  const name = host.includes(':') ? `[${host}]` : host
  return `http://${name}:${port}/${token === undefined ? '' : `#token=${token}`}`
}
