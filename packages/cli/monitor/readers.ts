import type { ServerResponse } from 'node:http'
import type { Board } from './board.js'

/** Milliseconds between two messages to a reader. */
const INTERVAL = 250
/** The most readers at a time. */
const MOST = 16
/** Milliseconds that a reader may leave a message unread before the server drops the reader. */
const STALL_TIMEOUT = 10_000
/**
 * Milliseconds after which a reader gets a message without changes, so that the reader knows that
 * the connection is alive.
 */
const HEARTBEAT = 2000

interface Reader {
  readonly response: ServerResponse
  seen: number
  /** When the last message was written. */
  wroteAt: number
}

/**
 * The open pages. Each page gets the changes of a board, at most four times a second. A reader that
 * has not read its last message gets no further message, and is dropped after `stallTimeout`. So at
 * most one message waits for a reader.
 */
export class Readers {
  readonly #board: Board
  readonly #refresh: () => void
  readonly #stallTimeout: number
  readonly #readers = new Set<Reader>()
  #timer: NodeJS.Timeout | undefined

  /** `refresh` updates the board before each message. */
  constructor(board: Board, refresh: () => void, stallTimeout: number = STALL_TIMEOUT) {
    this.#board = board
    this.#refresh = refresh
    this.#stallTimeout = stallTimeout
  }

  get count(): number {
    return this.#readers.size
  }

  /**
   * Begins to send the board, as server-sent events. Returns false if there are too many readers.
   */
  add(response: ServerResponse): boolean {
    if (this.#readers.size >= MOST) return false
    const reader: Reader = { response, seen: 0, wroteAt: Number.NEGATIVE_INFINITY }
    this.#readers.add(reader)
    response.once('close', () => this.#remove(reader))
    response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' })
    response.flushHeaders()
    this.#timer ??= setInterval(() => this.#send(this.#readers), INTERVAL)
    this.#send([reader])
    return true
  }

  /** Sends the last changes, and ends all responses. */
  close(): void {
    this.#send(this.#readers)
    for (const { response } of this.#readers) response.end()
  }

  #send(to: Iterable<Reader>): void {
    this.#refresh()
    const at = performance.now()
    const { seq } = this.#board
    const messages = new Map<number, string>()
    for (const reader of to) {
      const { response, seen, wroteAt } = reader
      if (response.writableEnded || response.destroyed) continue
      if (response.writableNeedDrain) {
        if (at - wroteAt > this.#stallTimeout) response.destroy()
        continue
      }
      if (seen === seq && at - wroteAt < HEARTBEAT) continue
      const message = messages.get(seen) ?? `data: ${this.#board.since(seen, Date.now())}\n\n`
      messages.set(seen, message)
      reader.seen = seq
      reader.wroteAt = at
      response.write(message)
    }
  }

  #remove(reader: Reader): void {
    this.#readers.delete(reader)
    if (this.#readers.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
