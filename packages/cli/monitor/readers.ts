import type { ServerResponse } from 'node:http'
import type { Board } from './board.js'

/** Milliseconds between two messages to a reader. */
const INTERVAL = 250
/** Readers at a time. */
const MOST = 16
/** Milliseconds that a reader may leave a message unread. */
const PATIENCE = 10_000
/** Milliseconds after which a reader gets a message though nothing has changed, so that it knows of the connection. */
const HEARTBEAT = 2000

/** The pages that are open. */
export interface Readers {
  readonly count: number
  /** Begins to send what the board shows, as server-sent events. False where there are too many. */
  add(response: ServerResponse): boolean
  /** Sends what there is, and ends all. */
  close(): void
}

/** What sends a board to its readers. */
export interface ReadersOptions {
  readonly board: Board
  /** Brings the board up to date; called before each message. */
  refresh(): void
  readonly now?: () => number
  /** @default 10000 */
  readonly patience?: number
}

interface Reader {
  readonly response: ServerResponse
  seen: number
  /** When the last message was written. */
  wroteAt: number
}

/**
 * Sends each reader what has changed, four times a second at most. A reader that has not taken its last message gets no other until it
 * has, and is dropped after a while: no more than one message waits for it.
 */
export function createReaders({
  board,
  refresh,
  now = Date.now,
  patience = PATIENCE,
}: ReadersOptions): Readers {
  const readers = new Set<Reader>()
  let timer: NodeJS.Timeout | undefined

  /** Sends to these readers what each has not seen. */
  function send(to: Iterable<Reader>): void {
    refresh()
    const at = performance.now()
    const messages = new Map<number, string>()
    for (const reader of to) {
      const { response, seen, wroteAt } = reader
      if (response.writableEnded || response.destroyed) continue
      if (response.writableNeedDrain) {
        if (at - wroteAt > patience) response.destroy()
        continue
      }
      if (seen === board.seq && at - wroteAt < HEARTBEAT) continue
      const message = messages.get(seen) ?? `data: ${board.since(seen, now())}\n\n`
      messages.set(seen, message)
      reader.seen = board.seq
      reader.wroteAt = at
      response.write(message)
    }
  }

  function remove(reader: Reader): void {
    readers.delete(reader)
    if (readers.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  return {
    get count() {
      return readers.size
    },
    add(response) {
      if (readers.size >= MOST) return false
      const reader: Reader = { response, seen: 0, wroteAt: Number.NEGATIVE_INFINITY }
      readers.add(reader)
      response.once('close', () => remove(reader))
      response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' })
      response.flushHeaders()
      timer ??= setInterval(() => send(readers), INTERVAL)
      send([reader])
      return true
    },
    close() {
      send(readers)
      for (const { response } of readers) response.end()
    },
  }
}
