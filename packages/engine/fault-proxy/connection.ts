import { Socket } from 'node:net'
import { seededRandom } from '../random.js'
import { FrameReader } from './cutter.js'
import type { EventDetails, ProxyEventName, ProxyLog } from './log.js'
import { directionsOf, type Toxics, type Upstream } from './options.js'
import { Pipe, type PipeOwner } from './pipe.js'
import {
  type ConnectionScript,
  type Direction,
  type Fault,
  nextPlace,
  type Rule,
  type Strike,
} from './rules.js'

/**
 * The first request of a connection. All fields are undefined until the head of the request is
 * complete. They stay undefined if the request is not HTTP.
 */
export interface RequestHead {
  /** Upper case: `GET`. */
  readonly method: string | undefined
  /** Path and query. */
  readonly path: string | undefined
  /** The value of `X-Cll-Origin`, if it was sent. */
  readonly origin: string | undefined
}

/** A snapshot of one connection through a proxy, with the head of its first request. */
export interface ProxyConnection extends RequestHead {
  /** The connection's number in the order of arrival, from 1. */
  readonly number: number
  /** When it was accepted, in Unix ms. */
  readonly openedAt: number
  /** Whether the upstream has answered with 101. */
  readonly isWebSocket: boolean
  /** How many data frames of the server have begun. */
  readonly frames: number
  /** Bytes that were passed on to the upstream. */
  readonly bytesUp: number
  /** Bytes that were passed on to the client. */
  readonly bytesDown: number
}

/** The longest HTTP head, in bytes. If no head ends within it, the bytes do not count as HTTP. */
const maxHeadBytes = 65_536

function parseHead(head: string): RequestHead {
  const [, method, path] = /^([A-Z]+) (\S+) HTTP\/1/.exec(head) ?? []
  const origin = method === undefined ? undefined : /^x-cll-origin: *(\S+)/im.exec(head)?.[1]
  return { method, path, origin }
}

/** The parts of a proxy that its connections use. */
export interface ProxyState {
  readonly upstream: Upstream
  readonly seed: number
  readonly log: ProxyLog
  /** The toxics that apply to all connections of the proxy. */
  readonly toxics: Readonly<Record<Direction, Toxics>>
}

/** A connection and its faults. */
export class Connection implements PipeOwner {
  readonly script: ConnectionScript
  readonly toxics: Readonly<Record<Direction, Toxics>>
  readonly #proxy: ProxyState
  readonly #number: number
  readonly #client: Socket
  readonly #upstream: Socket = new Socket({ allowHalfOpen: true })
  readonly #onClose: () => void
  readonly #openedAt: number = Date.now()
  readonly #frames: FrameReader = new FrameReader()
  readonly #pipes: Readonly<Record<Direction, Pipe>>
  readonly #timers = new Set<NodeJS.Timeout>()
  /** The first bytes of the client; undefined once they are parsed. */
  #headText: string | undefined = ''
  #head: RequestHead = parseHead('')
  #blackholes = 0
  #isConnecting = false
  #isUpgraded = false
  #isResetting = false
  #openSockets = 2

  /** Takes a client that was accepted. `start` connects it to the upstream. */
  constructor(
    proxy: ProxyState,
    number: number,
    client: Socket,
    script: ConnectionScript,
    onClose: () => void,
  ) {
    this.#proxy = proxy
    this.toxics = proxy.toxics
    this.#number = number
    this.#client = client
    this.script = script
    this.#onClose = onClose
    const upstream = this.#upstream
    const up = new Pipe('up', client, upstream, this)
    this.#pipes = { up, down: new Pipe('down', upstream, client, this, this.#frames) }
    const releaseUpstream = up.hold()
    client.on('data', chunk => this.#readHead(chunk))
    client.once('close', () => this.#onSocketClose())
    upstream.setNoDelay(true)
    upstream.once('close', () => this.#onSocketClose())
    upstream.once('connect', () => {
      this.note('connect')
      releaseUpstream()
    })
    upstream.on('data', () => {
      if (this.#isUpgraded || !this.#frames.isWebSocket) return
      this.#isUpgraded = true
      this.note('upgrade')
    })
  }

  info(): ProxyConnection {
    return {
      ...{ number: this.#number, openedAt: this.#openedAt, ...this.#head },
      isWebSocket: this.#frames.isWebSocket,
      frames: this.#frames.count,
      bytesUp: this.#pipes.up.bytes,
      bytesDown: this.#pipes.down.bytes,
    }
  }

  /** False as soon as the connection is reset, although its sockets take a moment to close. */
  get isOpen(): boolean {
    return !this.#isResetting
  }

  /**
   * Applies the rules that strike at the opening, starts the timers of timed rules, and connects to
   * the upstream.
   */
  start(): void {
    this.note('open')
    for (const rule of this.script.opening()) this.strike({ rule })
    for (const rule of this.script.timed) this.#schedule(rule, -1)
    this.#connect()
  }

  /** Applies a fault. If the fault lasts, the returned function ends it. `cause` is for the log. */
  apply(fault: Fault, cause?: EventDetails): () => void {
    switch (fault.do) {
      case 'reset':
        this.#reset(cause)
        break
      case 'half-close':
        for (const direction of directionsOf(fault.direction)) {
          this.note('half-close', { ...cause, direction })
          this.#pipes[direction].end()
        }
        break
      case 'corrupt':
        for (const pipe of this.#pipesOf(fault)) pipe.corruptNext(fault.bits ?? 1)
        break
      default:
        return this.#applyLasting(fault, cause)
    }
    return () => {}
  }

  /** Applies changed toxics. */
  update(): void {
    for (const pipe of Object.values(this.#pipes)) pipe.pump()
  }

  destroy(): void {
    this.#clear()
    this.#client.destroy()
    this.#upstream.destroy()
  }

  random(purpose: string): () => number {
    return seededRandom(this.#proxy.seed, `${purpose} connection ${this.#number}`)
  }

  note(event: ProxyEventName, details?: EventDetails): void {
    const { bytes } = this.#pipes[details?.direction === 'up' ? 'up' : 'down']
    this.#proxy.log.note(this.#number, event, { frame: this.#frames.count, bytes, ...details })
  }

  /** Applies the fault of a rule that strikes. */
  strike({ rule, frame }: Omit<Strike, 'frame'> & Partial<Strike>): void {
    const release = this.apply(rule, {
      rule: rule.index,
      ...(frame === undefined ? {} : { frame }),
    })
    if (rule.forMs !== Number.POSITIVE_INFINITY) this.#after(rule.forMs, release)
  }

  #pipesOf({ direction }: Fault): Pipe[] {
    return directionsOf(direction).map(each => this.#pipes[each])
  }

  #applyLasting(fault: Fault, cause: EventDetails | undefined): () => void {
    const { direction } = fault
    const end = fault.do === 'blackhole' ? this.#blackhole(fault) : this.#slowDown(fault)
    this.note(fault.do, { ...cause, direction })
    return () => {
      if (this.#openSockets > 0) this.note('release', { ...cause, direction })
      end()
    }
  }

  /**
   * Starts a blackhole; the returned function ends it. While it lasts, the connection does not
   * connect to the upstream.
   */
  #blackhole(fault: Fault): () => void {
    const releases = this.#pipesOf(fault).map(pipe => pipe.hold())
    this.#blackholes++
    return () => {
      for (const release of releases) release()
      this.#blackholes--
      this.#connect()
    }
  }

  #slowDown(fault: Fault): () => void {
    const pipes = this.#pipesOf(fault)
    // Added as a copy, because the same fault may be applied twice and a set contains an object
    // only once.
    const added = { ...fault }
    for (const { toxics } of pipes) toxics.add(added)
    this.update()
    return () => {
      for (const { toxics } of pipes) toxics.delete(added)
      this.update()
    }
  }

  #after(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      act()
    }, ms)
    this.#timers.add(timer)
  }

  /**
   * Starts the timer for the rule's first strike after `lastMs`, which is in ms since the opening.
   */
  #schedule(rule: Rule, lastMs: number): void {
    const ms = nextPlace(rule, lastMs)
    if (ms === undefined) return
    this.#after(ms - Math.max(0, lastMs), () => {
      if (this.script.decide(rule)) this.strike({ rule })
      this.#schedule(rule, ms)
    })
  }

  #connect(): void {
    if (this.#isConnecting || this.#blackholes > 0 || this.#upstream.destroyed) return
    this.#isConnecting = true
    const { host, port } = this.#proxy.upstream
    this.#upstream.connect({ host, port })
  }

  #reset(cause?: EventDetails): void {
    if (this.#isResetting || (this.#upstream.destroyed && this.#client.destroyed)) return
    this.#isResetting = true
    this.note('reset', cause)
    this.#clear()
    for (const pipe of Object.values(this.#pipes)) {
      pipe.hold()
      pipe.reset()
    }
  }

  #clear(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
    for (const pipe of Object.values(this.#pipes)) pipe.clear()
  }

  #onSocketClose(): void {
    this.#openSockets--
    if (!this.#isConnecting) this.#upstream.destroy()
    if (this.#openSockets > 0) return
    this.#clear()
    this.note('close')
    this.#onClose()
  }

  /** Reads a client's bytes until the head of its first request is complete. */
  #readHead(chunk: Buffer): void {
    if (this.#headText === undefined) return
    this.#headText += chunk.toString('latin1')
    const end = this.#headText.indexOf('\r\n\r\n')
    if (end < 0 && this.#headText.length < maxHeadBytes) return
    this.#head = parseHead(this.#headText.slice(0, Math.max(end, 0)))
    this.#headText = undefined
  }
}
