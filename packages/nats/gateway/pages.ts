import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { HTTPError } from 'sluice/internal'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Holder } from './holders.js'
import type { GatewayLimits } from './options.js'
import { SUBPROTOCOL, type Tokens } from './tokens.js'

/** The limits that apply to the connections of pages. */
type PageLimits = Required<
  Pick<GatewayLimits, 'connections' | 'connectionsPerToken' | 'bufferedBytes'>
>

/** The holder of a connection's token, and the subjects that the connection gets. */
export interface PageFacts {
  readonly holder: Holder
  readonly feedIDs: readonly string[]
  readonly subjects: readonly string[]
}

/** Counts of the connections of pages. */
export interface PageCounts {
  /** Connections that are open. */
  readonly connections: number
  /** Reports that were sent. A report counts once for each connection that got it. */
  readonly sent: number
  /** Connections that were closed because they read too slowly. */
  readonly slow: number
}

interface Page extends Omit<PageFacts, 'holder'> {
  readonly socket: WebSocket
  /** What the holder may do, as it was last checked. */
  holder: Holder
  isAnswering: boolean
}

/**
 * The longest message accepted from a page. It is short, because pages send only pongs and a close
 * frame.
 */
const MAX_INCOMING = 1024
/** Milliseconds for the other side to answer a close frame. */
const CLOSE_TIMEOUT = 5000
/** Milliseconds for the same when the gateway ends. */
const PATIENCE = 1000
const GOING_AWAY = 1001
const TRY_AGAIN_LATER = 1013
const UNAUTHORISED = 4401
const FORBIDDEN = 4403
const binary = { binary: true, compress: false }

/** The connections of pages. */
export class Pages {
  readonly #limits: PageLimits
  readonly #log: (message: string) => void
  readonly #pages = new Set<Page>()
  /** How many connections are open, by the names of the holders of their tokens. */
  readonly #counts = new Map<string, number>()
  readonly #bySubject = new Map<string, Set<Page>>()
  /** Connections that are being opened. */
  #reserved = 0
  #sent = 0
  #slow = 0
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_INCOMING,
    closeTimeout: CLOSE_TIMEOUT,
    handleProtocols: protocols => protocols.has(SUBPROTOCOL) && SUBPROTOCOL,
  } as ConstructorParameters<typeof WebSocketServer>[0])

  constructor(limits: PageLimits, log: (message: string) => void) {
    this.#limits = limits
    this.#log = log
  }

  get counts(): PageCounts {
    return { connections: this.#pages.size, sent: this.#sent, slow: this.#slow }
  }

  /**
   * Keeps a place for a connection until the returned function is called. Throws HTTPError if the
   * holder or the gateway has too many connections.
   */
  reserve({ name, connections: most = this.#limits.connectionsPerToken }: Holder): () => void {
    if ((this.#counts.get(name) ?? 0) >= most)
      throw tooMany(`the token has ${most} connections already`)
    if (this.#pages.size + this.#reserved >= this.#limits.connections)
      throw tooMany('there are too many connections')
    this.#reserved++
    this.#count(name, 1)
    return () => {
      this.#reserved--
      this.#count(name, -1)
    }
  }

  /** Completes the upgrade, and sends the reports of these subjects from then on. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer, facts: PageFacts): void {
    this.#server.handleUpgrade(request, socket, head, opened =>
      this.#join({ ...facts, socket: opened, isAnswering: true }),
    )
  }

  /** Sends a report to the pages that asked for its subject. */
  send(subject: string, data: Uint8Array): void {
    const readers = this.#bySubject.get(subject)
    if (readers === undefined) return
    // Copies the bytes. They belong to a larger buffer, which a slow connection would keep in
    // memory.
    const frame = Buffer.from(data)
    for (const page of readers) {
      if (page.socket.bufferedAmount + frame.length > this.#limits.bufferedBytes) {
        this.#slow++
        this.#drop(page, TRY_AGAIN_LATER, 'too slow: it reads less than is sent')
      } else {
        page.socket.send(frame, binary)
        this.#sent++
      }
    }
  }

  /** Closes the connections whose tokens are no longer valid, or no longer have their feeds. */
  checkTokens(tokens: Pick<Tokens, 'current'>): void {
    for (const page of this.#pages) {
      const holder = tokens.current(page.holder)
      if (holder === undefined)
        this.#drop(page, UNAUTHORISED, 'the token was removed, or has expired')
      else if (holder !== page.holder) this.#update(page, holder)
    }
  }

  /** Pings all connections, and terminates each connection that has not answered the last ping. */
  ping(): void {
    for (const page of this.#pages) {
      if (!page.isAnswering) page.socket.terminate()
      page.isAnswering = false
      if (page.socket.readyState === page.socket.OPEN) page.socket.ping()
    }
  }

  /** Closes all connections, and terminates those that don't answer the close frame in time. */
  close(): void {
    const closing = [...this.#pages]
    for (const page of closing) {
      this.#leave(page)
      page.socket.close(GOING_AWAY, 'the gateway ends')
    }
    setTimeout(() => {
      for (const { socket } of closing) socket.terminate()
    }, PATIENCE).unref()
  }

  #join(page: Page): void {
    this.#pages.add(page)
    this.#count(page.holder.name, 1)
    for (const subject of page.subjects) {
      const readers = this.#bySubject.get(subject) ?? new Set()
      this.#bySubject.set(subject, readers.add(page))
    }
    page.socket.on('pong', () => {
      page.isAnswering = true
    })
    // Errors are ignored, because a `close` event follows each error.
    page.socket.on('error', () => undefined)
    page.socket.on('close', () => this.#leave(page))
  }

  #leave(page: Page): void {
    if (!this.#pages.delete(page)) return
    this.#count(page.holder.name, -1)
    for (const subject of page.subjects) {
      const readers = this.#bySubject.get(subject)
      readers?.delete(page)
      if (readers?.size === 0) this.#bySubject.delete(subject)
    }
  }

  #update(page: Page, holder: Holder): void {
    const { feedIDs } = holder
    if (feedIDs !== undefined && !page.feedIDs.every(feedID => feedIDs.has(feedID)))
      this.#drop(page, FORBIDDEN, 'the token no longer has access to a feed')
    else {
      this.#count(page.holder.name, -1)
      page.holder = holder
      this.#count(holder.name, 1)
    }
  }

  #count(name: string, more: number): void {
    const count = (this.#counts.get(name) ?? 0) + more
    if (count === 0) this.#counts.delete(name)
    else this.#counts.set(name, count)
  }

  #drop(page: Page, code: number, reason: string): void {
    this.#leave(page)
    page.socket.close(code, reason)
    this.#log(`a connection of ${page.holder.name} is closed: ${reason}`)
  }
}

function tooMany(message: string): HTTPError {
  return new HTTPError(429, message, undefined, { 'retry-after': '5' })
}
