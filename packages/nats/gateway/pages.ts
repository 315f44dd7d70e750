import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { HTTPError } from 'sluice/internal'
import { type WebSocket, WebSocketServer } from 'ws'
import { type Holder, SUBPROTOCOL } from './authorization.js'
import type { TokenList } from './tokens.js'

/** The bounds of what pages may have. */
export interface PageLimits {
  readonly connections: number
  readonly connectionsPerToken: number
  readonly bufferedBytes: number
}

/** The connections of pages. */
export interface Pages {
  /** Throws HTTPError where there are too many. */
  checkRoom(holder: Holder): void
  /** Completes the upgrade, and sends the reports of these subjects from then on. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer, page: PageFacts): void
  /** Sends a report to whoever asked for its subject. */
  send(subject: string, data: Uint8Array): void
  /** Closes the connections whose tokens are no longer good. */
  checkTokens(tokens: TokenList): void
  /** Pings all, and ends those that have not answered the last time. */
  ping(): void
  readonly counts: PageCounts
  close(): void
}

/** Whose connection it is, and for what. */
export interface PageFacts {
  readonly holder: Holder
  readonly subjects: readonly string[]
}

/** What has been counted of pages. */
export interface PageCounts {
  /** Connections that are open. */
  readonly connections: number
  /** Reports that were sent, each once per connection. */
  readonly sent: number
  /** Connections that were closed because they read too slowly. */
  readonly slow: number
}

interface Page extends PageFacts {
  readonly socket: WebSocket
  isAnswering: boolean
}

/** Pages send nothing but pongs and a close frame. */
const MAX_INCOMING = 1024
/** Milliseconds for the other side to answer a close frame. */
const CLOSE_TIMEOUT = 5000
const GOING_AWAY = 1001
const TRY_AGAIN_LATER = 1013
const UNAUTHORISED = 4401
const binary = { binary: true, compress: false }

/** No pages yet. */
export function createPages(limits: PageLimits, log: (message: string) => void): Pages {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_INCOMING,
    closeTimeout: CLOSE_TIMEOUT,
    handleProtocols: protocols => protocols.has(SUBPROTOCOL) && SUBPROTOCOL,
  } as ConstructorParameters<typeof WebSocketServer>[0])
  const pages = new Set<Page>()
  const bySubject = new Map<string, Set<Page>>()
  let sent = 0
  let slow = 0

  function leave(page: Page): void {
    pages.delete(page)
    for (const subject of page.subjects) {
      const readers = bySubject.get(subject)
      readers?.delete(page)
      if (readers?.size === 0) bySubject.delete(subject)
    }
  }

  function drop(page: Page, code: number, reason: string): void {
    leave(page)
    page.socket.close(code, reason)
    log(`a connection of ${page.holder.name} is closed: ${reason}`)
  }

  function dropSlow(page: Page): void {
    slow++
    drop(page, TRY_AGAIN_LATER, 'too slow: it reads less than is sent')
  }

  function join(page: Page): void {
    pages.add(page)
    for (const subject of page.subjects) {
      const readers = bySubject.get(subject) ?? new Set()
      bySubject.set(subject, readers.add(page))
    }
    page.socket.on('pong', () => {
      page.isAnswering = true
    })
    // What fails is followed by `close`.
    page.socket.on('error', () => undefined)
    page.socket.on('close', () => leave(page))
  }

  return {
    checkRoom({ name }) {
      let own = 0
      for (const { holder } of pages) if (holder.name === name) own++
      if (own >= limits.connectionsPerToken)
        throw tooMany(`the token has ${limits.connectionsPerToken} connections already`)
      if (pages.size >= limits.connections) throw tooMany('there are too many connections')
    },
    accept(request, socket, head, facts) {
      server.handleUpgrade(request, socket, head, opened =>
        join({ ...facts, socket: opened, isAnswering: true }),
      )
    },
    send(subject, data) {
      const readers = bySubject.get(subject)
      if (readers === undefined) return
      // The bytes are part of what was read at once, which a slow connection would hold in memory.
      const frame = Buffer.from(data)
      for (const page of readers) {
        if (page.socket.bufferedAmount + frame.length > limits.bufferedBytes) dropSlow(page)
        else {
          page.socket.send(frame, binary)
          sent++
        }
      }
    },
    checkTokens(tokens) {
      for (const page of pages)
        if (tokens.holderOf(page.holder.digest) === undefined)
          drop(page, UNAUTHORISED, 'the token was removed, or has expired')
    },
    ping() {
      for (const page of pages) {
        if (!page.isAnswering) page.socket.terminate()
        page.isAnswering = false
        if (page.socket.readyState === page.socket.OPEN) page.socket.ping()
      }
    },
    get counts() {
      return { connections: pages.size, sent, slow }
    },
    close() {
      for (const page of pages) {
        leave(page)
        page.socket.close(GOING_AWAY, 'the gateway ends')
      }
    },
  }
}

function tooMany(message: string): HTTPError {
  return new HTTPError(429, message, undefined, { 'retry-after': '5' })
}
