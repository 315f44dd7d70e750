import { randomBytes } from 'node:crypto'
import { type Feed, VERSION } from 'sluice/client'
import { ValidationError } from 'sluice/core'
import { asyncDispose } from 'sluice/internal'
import { Board } from './board.js'
import type { MeasuredClient } from './measured-client.js'
import { type RangeName, ranges } from './series.js'
import { type Answers, isLoopback, type PageFiles, readPage, startServer } from './server.js'
import { Watch, type Watched } from './watch.js'

/** A page that shows a stream. */
export interface Monitor extends AsyncDisposable {
  /** The URL to open. It contains the token if the server asks for one. */
  readonly url: string
  /** Settles when the stream has ended. Rejects if the stream failed. */
  readonly closed: Promise<void>
}

interface ShownSource extends MeasuredClient {
  readonly feeds: readonly Feed[]
  readonly name: string
  readonly wire: string
}

/** The address at which the page is served, and its files. */
interface Place {
  readonly host?: string
  readonly port?: number
  /** @default the files of the build */
  readonly files?: PageFiles
}

/**
 * Serves a page, then starts the stream that the page shows. The stream retries without limit.
 * `stale` is in seconds.
 */
export async function startMonitor(
  source: ShownSource,
  { stale, host, port }: Required<Omit<Place, 'files'>> & { readonly stale: number },
  { signal }: { readonly signal: AbortSignal },
): Promise<Monitor> {
  const stream = source.client.createStream(
    source.feeds.map(({ feedID }) => feedID),
    { maxReconnectAttempts: Number.POSITIVE_INFINITY, staleAfter: stale * 1000, signal },
  )
  const { url, close } = await monitorOf(source, stream, { host, port })
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

/**
 * Serves a page that shows a stream of a measured client. By default, the page is served on any
 * free port of loopback.
 */
export async function monitorOf(
  source: ShownSource,
  stream: Watched['stream'],
  { host = '127.0.0.1', port = 0, files = readPage() }: Place = {},
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const { name, wire } = source
  const board = new Board()
  board.put('about', 0, { source: name, version: VERSION, startedAt: Date.now(), wire })
  const watch = new Watch(board, { ...source, stream })
  const token = isLoopback(host) ? undefined : randomBytes(24).toString('base64url')
  const { readers } = watch
  const answers = answersOf(watch)
  const server = await startServer({ host, port, token, files, readers, answers }).catch(error => {
    watch.stop()
    throw error
  })
  return {
    // The token is in the fragment, which a browser does not send to any server.
    url: `${server.url}/${token === undefined ? '' : `#token=${token}`}`,
    async close() {
      await server.close()
      watch.stop()
    },
  }
}

/** The longest name of a feed that is looked for. */
const MAX_NAME = 80

/** The answers of the server about ranges. */
function answersOf(watch: Watch): Answers {
  const rangeOf = (query: URLSearchParams): RangeName => {
    const range = query.get('range') ?? '5m'
    if (!Object.hasOwn(ranges, range))
      throw new ValidationError(`range must be one of ${Object.keys(ranges).join(', ')}`)
    return range as RangeName
  }
  const answers: Answers = {
    '/rate': query => watch.rate(rangeOf(query)),
    '/feed': query => watch.feed((query.get('feed') ?? '').slice(0, MAX_NAME), rangeOf(query)),
  }
  return Object.assign(Object.create(null), answers) as Answers
}
