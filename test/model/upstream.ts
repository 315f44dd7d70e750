// The other side of a stream's connections, without sockets: it does as it is told, and keeps a log of what was done to it.
import type { Connect, Socket, SocketEvents } from '../../client/transport/socket.js'
import type { VirtualTime } from '../../testing/virtual-time.js'

/** An origin's answer to an attempt to connect. */
export type Manner =
  | 'accept'
  /** Accepts, and closes again within a second. */
  | 'flap'
  /** There is nobody. */
  | 'refuse'
  /** Nothing is answered. */
  | 'stall'
  | { readonly status: number; readonly retryAfter?: number }

/** One attempt to connect, and its connection. */
export interface Line {
  readonly origin: Origin
  readonly url: string
  readonly manner: Manner
  readonly startedAt: number
  openedAt: number | undefined
  endedAt: number | undefined
  /** Since when the peer is gone without a word. */
  stalledAt: number | undefined
  /** The client has ended it. */
  isLeft: boolean
  readonly events: SocketEvents
}

/** One origin of the service. */
export interface Origin {
  readonly host: string
  manner: Manner
}

/** What hears of what clients do. */
export interface UpstreamListener {
  started(line: Line): void
  opened(line: Line): void
  /** The client has ended a connection. */
  left(line: Line): void
  ended(line: Line): void
}

/** The origins of a service and the connections to them. */
export interface Upstream {
  readonly origins: readonly Origin[]
  /** All attempts ever. */
  readonly lines: readonly Line[]
  readonly connect: Connect
  /** Those that are connecting or open. */
  alive(origin?: Origin): readonly Line[]
  /** Those that are open. */
  open(origin?: Origin): readonly Line[]
  /** Sends a message, to be there after so many milliseconds. */
  send(line: Line, text: string, ms?: number): void
  /** Ends a connection from this side. */
  end(line: Line, closeCode: number, error?: Error): void
}

/** Milliseconds from one side to the other. */
export const LATENCY = 20

const encoder = new TextEncoder()

/** Origins by their hosts; all accept at first. */
export function createUpstream(
  time: VirtualTime,
  hosts: readonly string[],
  listener: UpstreamListener,
): Upstream {
  const origins: readonly Origin[] = hosts.map(host => ({ host, manner: 'accept' }))
  const lines: Line[] = []
  // What has ended is looked at no more.
  const living = new Set<Line>()

  const alive = (origin?: Origin): readonly Line[] =>
    [...living].filter(line => origin === undefined || line.origin === origin)
  const isOpen = (line: Line): boolean => line.openedAt !== undefined && line.endedAt === undefined

  function finish(line: Line, closeCode: number, error?: Error): void {
    if (line.endedAt !== undefined) return
    line.endedAt = time.now
    living.delete(line)
    listener.ended(line)
    line.events.ended(closeCode, error)
  }

  function accept(line: Line): void {
    if (line.endedAt !== undefined || line.isLeft) return
    line.openedAt = time.now
    line.events.opened()
    listener.opened(line)
    if (line.manner === 'flap') time.outside(500, () => finish(line, 1001))
  }

  function answer(line: Line): void {
    const { manner, events } = line
    if (line.endedAt !== undefined || manner === 'stall') return
    if (manner === 'accept' || manner === 'flap') accept(line)
    else if (manner === 'refuse') finish(line, 1006, new Error('connect ECONNREFUSED'))
    else {
      const { status, retryAfter } = manner
      const headers = new Headers(
        retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) },
      )
      events.refused(status, headers, new Uint8Array())
      finish(line, 1006)
    }
  }

  const connect: Connect = async (target, events) => {
    const { host } = new URL(target.url)
    const origin = origins.find(each => each.host === host)
    if (origin === undefined) throw new Error(`there is no ${host}`)
    const line: Line = {
      origin,
      url: target.url,
      manner: origin.manner,
      startedAt: time.now,
      openedAt: undefined,
      endedAt: undefined,
      stalledAt: undefined,
      isLeft: false,
      events,
    }
    lines.push(line)
    living.add(line)
    listener.started(line)
    time.outside(2 * LATENCY, () => answer(line))
    return socketOf(line)
  }

  function socketOf(line: Line): Socket {
    const answers = (): boolean =>
      line.stalledAt === undefined && line.endedAt === undefined && line.openedAt !== undefined
    function leave(): void {
      if (line.endedAt === undefined && !line.isLeft) {
        line.isLeft = true
        listener.left(line)
      }
    }
    return {
      ping() {
        if (answers())
          time.outside(2 * LATENCY, () => {
            if (answers()) line.events.alive()
          })
      },
      pong: () => undefined,
      pause: () => undefined,
      resume: () => undefined,
      close() {
        leave()
        time.outside(2 * LATENCY, () => {
          if (answers()) finish(line, 1000)
        })
      },
      terminate() {
        leave()
        time.outside(1, () => finish(line, 1006))
      },
    }
  }

  return {
    origins,
    lines,
    connect,
    alive,
    open: origin => alive(origin).filter(isOpen),
    send(line, text, ms = LATENCY) {
      const data = encoder.encode(text)
      time.outside(ms, () => {
        if (isOpen(line) && line.stalledAt === undefined) line.events.message(data)
      })
    },
    end: finish,
  }
}
