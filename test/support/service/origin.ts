/** One origin: its open connections, what it sends to them, and how it misbehaves. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import type { Report } from './report.js'

/** A request as it arrived, and what became of it. */
export interface RequestRecord {
  readonly at: number
  readonly method: string
  /** With the query, as sent. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly upgrade: boolean
  /** The origin that the request was routed to. */
  readonly origin: string
  /** 101 for an accepted upgrade, 0 for a reset, undefined while nothing was answered. */
  status: number | undefined
}

export interface Connection {
  readonly request: RequestRecord
  readonly feeds: ReadonlySet<string>
  readonly webSocket: WebSocket
  readonly socket: Socket
  /** `mute` answers pings and sends no report; `frozen` reads nothing and sends nothing. */
  state: 'live' | 'mute' | 'frozen'
  pings: number
  /** The close frame of the client, once it came. */
  closed: { readonly code: number; readonly reason: string } | undefined
}

/**
 * What happens to requests for a killed origin: the connection is reset, or 503 is answered, or
 * another origin serves it. Its own port refuses connections in any case.
 */
export type Death = 'reset' | 'refuse' | 'elsewhere'

export interface Lag {
  /** The origin keeps back its newest n reports. */
  readonly reports?: number
  readonly ms?: number
}

export interface Origin {
  readonly name: string
  /** Every request that was routed here, upgrades included. */
  readonly requests: readonly RequestRecord[]
  /** The upgrade requests among them, accepted or not. */
  readonly upgrades: readonly RequestRecord[]
  /** The connections that are open. */
  readonly connections: readonly Connection[]
  /** Every connection that was ever open. */
  readonly pastConnections: readonly Connection[]
  readonly open: number
  readonly mostOpen: number
  /** More connections than this are answered 429. */
  maxConnections: number
  /** The answer to its requests while it is killed. */
  readonly death: Death | undefined

  /** Sends a report to the connections that subscribe to its feed, after the lag. */
  send(report: Report): void
  /** Sends frames to each open connection: text if given as a string. */
  sendFrame(data: string | Uint8Array, times?: number): void
  /** Lags from now on. `lag()` ends it and sends what was kept back. */
  lag(lag?: Lag): void
  /** Sends its last n reports once more to the open connections. */
  replay(count: number): void
  /** Every connection opened from now on gets the last n reports of its feeds first. */
  replayOnConnect(count: number): void
  /** Open connections send no more reports, and those opened later neither if `coming`. */
  mute(options?: { coming?: boolean }): void
  /** Open connections go dead without a close, and those opened later as well if `coming`. */
  freeze(options?: { coming?: boolean }): void
  /** Ends `mute` and `freeze`. */
  revive(): void
  /** Closes the open connections with a close code, or resets them. */
  disconnect(how?: number | 'reset', reason?: string): void
  kill(death?: Death): Promise<void>
  restart(): Promise<void>
}

export interface OriginInside extends Origin {
  readonly requests: RequestRecord[]
  admit(connection: Connection): void
  close(): void
}

/** Reports that can be replayed. */
const REMEMBERED = 10_000

export function makeOrigin(
  name: string,
  ownPort: { open(): Promise<void>; close(): Promise<void> },
): OriginInside {
  const requests: RequestRecord[] = []
  const connections = new Set<Connection>()
  const pastConnections: Connection[] = []
  const sent: Report[] = []
  let delayed: { readonly report: Report; readonly due: number }[] = []
  let lag: Lag = {}
  let timer: NodeJS.Timeout | undefined
  let mostOpen = 0
  let replayed = 0
  let comingState: Connection['state'] = 'live'
  let death: Death | undefined

  function deliver(report: Report): void {
    sent.push(report)
    if (sent.length > 2 * REMEMBERED) sent.splice(0, REMEMBERED)
    for (const connection of connections) deliverTo(connection, report)
  }

  function deliverTo({ state, feeds, webSocket }: Connection, report: Report): void {
    if (state === 'live' && feeds.has(report.feedID.toLowerCase())) webSocket.send(report.frame)
  }

  function release(): void {
    clearTimeout(timer)
    const now = performance.now()
    const { reports = 0 } = lag
    let count = 0
    while (delayed.length - count > reports && (delayed[count]?.due ?? 0) <= now)
      deliver((delayed[count++] as (typeof delayed)[number]).report)
    delayed = delayed.slice(count)
    const next = delayed.length > reports ? delayed[0] : undefined
    if (next !== undefined) timer = setTimeout(release, Math.ceil(next.due - now))
  }

  function setState(connection: Connection, state: Connection['state']): void {
    connection.state = state
    if (state === 'frozen') connection.webSocket.pause()
    else connection.webSocket.resume()
  }

  const setAll = (state: Connection['state'], coming: boolean): void => {
    if (coming) comingState = state
    for (const connection of connections) setState(connection, state)
  }

  return {
    name,
    requests,
    get upgrades() {
      return requests.filter(request => request.upgrade)
    },
    get connections() {
      return [...connections]
    },
    pastConnections,
    get open() {
      return connections.size
    },
    get mostOpen() {
      return mostOpen
    },
    maxConnections: Number.POSITIVE_INFINITY,
    get death() {
      return death
    },

    send(report) {
      if (delayed.length === 0 && !lag.reports && !lag.ms) deliver(report)
      else {
        delayed.push({ report, due: performance.now() + (lag.ms ?? 0) })
        release()
      }
    },
    sendFrame(data, times = 1) {
      for (let i = 0; i < times; i++)
        for (const { state, webSocket } of connections) if (state === 'live') webSocket.send(data)
    },
    lag(next = {}) {
      lag = next
      if (!lag.ms) delayed = delayed.map(({ report }) => ({ report, due: 0 }))
      release()
    },
    replay(count) {
      const reports = count > 0 ? sent.slice(-count) : []
      for (const connection of connections)
        for (const report of reports) deliverTo(connection, report)
    },
    replayOnConnect(count) {
      replayed = count
    },
    mute: ({ coming = false } = {}) => setAll('mute', coming),
    freeze: ({ coming = false } = {}) => setAll('frozen', coming),
    revive: () => setAll('live', true),
    disconnect(how = 1000, reason = '') {
      for (const { webSocket, socket } of connections)
        if (how === 'reset') socket.resetAndDestroy()
        else webSocket.close(how, reason)
    },
    async kill(next = 'reset') {
      death = next
      this.disconnect('reset')
      await ownPort.close()
    },
    async restart() {
      death = undefined
      await ownPort.open()
    },

    admit(connection) {
      connections.add(connection)
      pastConnections.push(connection)
      mostOpen = Math.max(mostOpen, connections.size)
      const { webSocket, feeds } = connection
      webSocket.on('error', () => {})
      webSocket.on('ping', () => connection.pings++)
      webSocket.on('close', (code, reason) => {
        connection.closed = { code, reason: reason.toString() }
        connections.delete(connection)
      })
      setState(connection, comingState)
      if (replayed > 0)
        for (const report of sent
          .filter(({ feedID }) => feeds.has(feedID.toLowerCase()))
          .slice(-replayed))
          deliverTo(connection, report)
    },
    close() {
      clearTimeout(timer)
      for (const { webSocket } of connections) webSocket.terminate()
    },
  }
}
