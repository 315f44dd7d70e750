import type { Socket } from 'node:net'
import { MAX_TIMER } from 'sluice/core'
import type { Toxics } from './toxics.js'

/** The bytes and actions that wait for a socket, in order, delayed and throttled by toxics. */
export interface SendQueue {
  /** Adds bytes, or an action to run once everything before it is written. */
  readonly add: (item: Buffer | (() => void)) => void
  readonly pump: () => void
  /** Sends nothing until the returned function is called. */
  readonly hold: () => () => void
  readonly clear: () => void
  readonly sentBytes: number
  readonly isFull: boolean
  /** When bytes were last written, on the clock of `performance`. */
  readonly lastWrite: number
}

interface Item {
  readonly content: Buffer | (() => void)
  readonly since: number
  /** This item's share of the jitter, -1 to 1. */
  readonly jitter: number
}

// The sender keeps the rest.
const maxQueuedBytes = 1024 * 1024

// Bytes are sent in portions worth 20 ms; unused time adds up to 100 ms at most.
const portionMs = 20
const savedMs = 100

/** A token bucket that starts empty. */
function createThrottle() {
  let saved = 0
  let since = performance.now()

  /** The bytes that are worth a write of their own. */
  const portionOf = (wanted: number, perMs: number): number =>
    Math.max(1, Math.min(wanted, Math.floor(portionMs * perMs)))

  return {
    /** How many of the wanted bytes may be sent now. */
    take(wanted: number, bytesPerSecond: number): number {
      if (bytesPerSecond === Number.POSITIVE_INFINITY) return wanted
      const now = performance.now()
      const perMs = bytesPerSecond / 1000
      saved = Math.min(saved + (now - since) * perMs, Math.max(1, savedMs * perMs))
      since = now
      if (saved < portionOf(wanted, perMs)) return 0
      const taken = Math.min(wanted, Math.floor(saved))
      saved -= taken
      return taken
    },
    /** Milliseconds until `take` may return more than 0. */
    wait(wanted: number, bytesPerSecond: number): number {
      const perMs = bytesPerSecond / 1000
      return (portionOf(wanted, perMs) - saved) / perMs
    },
  }
}

/** Writes to a socket and counts. */
function createWriter(to: Socket, onWritten: () => void) {
  const writer = {
    pendingWrites: 0,
    sentBytes: 0,
    lastWrite: Number.NEGATIVE_INFINITY,
    write(bytes: Buffer): void {
      writer.sentBytes += bytes.length
      writer.pendingWrites++
      writer.lastWrite = performance.now()
      to.write(bytes, function written() {
        writer.pendingWrites--
        onWritten()
      })
    },
  }
  return writer
}

/** An empty queue in front of a socket that may not be open yet. `onPumped` runs after each attempt to send. */
export function createSendQueue(
  to: Socket,
  toxics: () => Toxics,
  random: () => number,
  onPumped: () => void,
): SendQueue {
  const throttle = createThrottle()
  const writer = createWriter(to, pump)
  let items: Item[] = []
  let queuedBytes = 0
  let holds = 0
  let timer: NodeJS.Timeout | undefined

  function clear(): void {
    clearTimeout(timer)
    items = []
    queuedBytes = 0
  }

  function pumpIn(ms: number): void {
    timer = setTimeout(pump, Math.min(Math.max(1, Math.ceil(ms)), MAX_TIMER))
  }

  function remove(first: Item, bytes: Buffer, count: number): void {
    if (count === bytes.length) items.shift()
    else items[0] = { ...first, content: bytes.subarray(count) }
    queuedBytes -= count
  }

  /** Sends the first item, or a part of it. Returns whether the next one may follow now. */
  function sendFirst(first: Item): boolean {
    const { latencyMs, jitterMs, bytesPerSecond } = toxics()
    const delay = Math.max(0, latencyMs + first.jitter * jitterMs)
    const left = first.since + delay - performance.now()
    if (left > 0) {
      pumpIn(left)
      return false
    }
    const { content } = first
    if (typeof content === 'function') {
      // A reset would discard bytes that are not written yet.
      if (writer.pendingWrites > 0) return false
      items.shift()
      content()
      return true
    }
    if (!to.writable) {
      remove(first, content, content.length)
      return true
    }
    if (to.writableNeedDrain) return false
    const count = throttle.take(content.length, bytesPerSecond)
    if (count === 0) {
      pumpIn(throttle.wait(content.length, bytesPerSecond))
      return false
    }
    remove(first, content, count)
    writer.write(content.subarray(0, count))
    return true
  }

  function pump(): void {
    clearTimeout(timer)
    for (let first = items[0]; first !== undefined && holds === 0; first = items[0]) {
      if (to.destroyed) clear()
      else if (!sendFirst(first)) break
    }
    onPumped()
  }

  return {
    add(content) {
      if (typeof content !== 'function') queuedBytes += content.length
      items.push({ content, since: performance.now(), jitter: random() * 2 - 1 })
    },
    pump,
    hold() {
      holds++
      return function release() {
        holds--
        pump()
      }
    },
    clear,
    get sentBytes() {
      return writer.sentBytes
    },
    get isFull() {
      return queuedBytes >= maxQueuedBytes
    },
    get lastWrite() {
      return writer.lastWrite
    },
  }
}
