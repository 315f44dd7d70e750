import { Socket } from 'node:net'
import { type ApplyFault, createApplyFault, createRuleRunner } from './connection-faults.js'
import { createFrameReader, type FrameReader } from './frames.js'
import type { EventDetails, ProxyEventName, ProxyLog } from './log.js'
import { createPipe, type PipeContext, type PipeParts, type Pipes } from './pipe.js'
import { createHeadReader, type RequestHead } from './request-head.js'
import type { Toxics } from './toxics.js'

/** A snapshot of one connection through a proxy, with the head of its first request. */
export interface ProxyConnection extends RequestHead {
  /** Its place in the order of arrival, from 1. */
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

/** A connection and its faults. */
export interface Connection {
  readonly info: () => ProxyConnection
  /** False from a reset on: its sockets take a moment longer. */
  readonly isOpen: boolean
  /** Applies the faults of the opening and connects the upstream. */
  readonly start: () => void
  readonly apply: ApplyFault
  readonly update: () => void
  readonly destroy: () => void
}

/** The parts of a connection. */
export interface ConnectionParts extends PipeParts {
  readonly client: Socket
  readonly upstream: { readonly host: string; readonly port: number }
  readonly log: ProxyLog
  readonly onClose: () => void
}

function createPipes(
  client: Socket,
  upstream: Socket,
  context: PipeContext,
  frames: FrameReader,
): Pipes {
  const up = createPipe('up', client, upstream, context)
  const down = createPipe('down', upstream, client, context, frames)
  return {
    up,
    down,
    update() {
      for (const pipe of [up, down]) pipe.update()
    },
    reset() {
      for (const pipe of [up, down]) {
        pipe.hold()
        pipe.reset()
      }
    },
    clear() {
      for (const pipe of [up, down]) pipe.clear()
    },
  }
}

/** Connects an accepted client to the upstream, once started. */
export function createConnection(parts: ConnectionParts): Connection {
  const { number, client, script, log } = parts
  const openedAt = Date.now()
  const upstream = new Socket({ allowHalfOpen: true })
  const frames = createFrameReader()
  const request = createHeadReader()
  const toxics = { up: new Set<Partial<Toxics>>(), down: new Set<Partial<Toxics>>() }
  const context: PipeContext = {
    ...{ parts, toxics, note },
    onStrike: ({ rule, frame }) => rules.strike(rule, { rule: rule.index, frame }),
  }
  const pipes = createPipes(client, upstream, context, frames)
  const releaseUpstream = pipes.up.hold()
  const apply = createApplyFault({
    ...{ pipes, toxics, note, reset },
    isOpen: () => openSockets > 0,
    onBlackhole(isOn) {
      isBlackholed = isOn
      connect()
    },
  })
  const rules = createRuleRunner(script, apply)
  let isBlackholed = false
  let isConnecting = false
  let isUpgraded = false
  let isResetting = false
  let openSockets = 2

  function note(event: ProxyEventName, details?: EventDetails): void {
    const { bytes } = pipes[details?.direction === 'up' ? 'up' : 'down']
    log.note(number, event, { frame: frames.count, bytes, ...details })
  }

  function connect(): void {
    if (isConnecting || isBlackholed || upstream.destroyed) return
    isConnecting = true
    upstream.connect(parts.upstream)
  }

  function reset(cause?: EventDetails): void {
    if (isResetting || (upstream.destroyed && client.destroyed)) return
    isResetting = true
    note('reset', cause)
    clear()
    pipes.reset()
  }

  function clear(): void {
    rules.clear()
    pipes.clear()
  }

  function onSocketClose(): void {
    openSockets--
    if (!isConnecting) upstream.destroy()
    if (openSockets > 0) return
    clear()
    note('close')
    parts.onClose()
  }

  client.on('data', request.read)
  client.once('close', onSocketClose)
  upstream.setNoDelay(true)
  upstream.once('close', onSocketClose)
  upstream.once('connect', function onConnect() {
    note('connect')
    releaseUpstream()
  })
  upstream.on('data', function noteUpgrade() {
    if (isUpgraded || !frames.isWebSocket) return
    isUpgraded = true
    note('upgrade')
  })

  return {
    apply,
    update: pipes.update,
    info: () => ({
      ...{ number, openedAt, ...request.head },
      isWebSocket: frames.isWebSocket,
      frames: frames.count,
      bytesUp: pipes.up.bytes,
      bytesDown: pipes.down.bytes,
    }),
    get isOpen() {
      return !isResetting
    },
    start() {
      note('open')
      rules.start()
      connect()
    },
    destroy() {
      clear()
      client.destroy()
      upstream.destroy()
    },
  }
}
