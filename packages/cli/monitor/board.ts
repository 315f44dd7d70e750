import type { EventLevel, EventRow, Message } from './messages.js'

/** The parts of a message. */
export type Section = Exclude<keyof Message, 'seq' | 'now'>
type RowOf<Name extends Section> = NonNullable<Message[Name]>[number]

interface Entry {
  json: string
  seq: number
}

/**
 * The latest of everything that the page shows, and when it changed. Each row is stored as JSON, so a change shows by comparing
 * texts. A slow reader gets the latest of each row once, and nothing in between.
 */
export class Board {
  readonly #sections = new Map<Section, Map<string | number, Entry>>()
  #seq = 0

  /** Counts each change. */
  get seq(): number {
    return this.#seq
  }

  /** Replaces the row with this key. An equal row changes nothing. */
  put<Name extends Section>(section: Name, key: string | number, row: RowOf<Name>): void {
    const json = JSON.stringify(row)
    let entries = this.#sections.get(section)
    if (entries === undefined) {
      entries = new Map()
      this.#sections.set(section, entries)
    }
    const entry = entries.get(key)
    if (entry === undefined) entries.set(key, { json, seq: ++this.#seq })
    else if (entry.json !== json) {
      entry.json = json
      entry.seq = ++this.#seq
    }
  }

  /** Removes a row from the messages of new readers. */
  remove(section: Section, key: string | number): void {
    this.#sections.get(section)?.delete(key)
  }

  /** The message for a reader who has seen everything up to `seen`: 0 for a new reader. */
  since(seen: number, now: number): string {
    const parts = [`"seq":${this.#seq},"now":${now}`]
    for (const [section, entries] of this.#sections) {
      const rows: string[] = []
      for (const entry of entries.values()) if (entry.seq > seen) rows.push(entry.json)
      if (rows.length > 0) parts.push(`"${section}":[${rows.join(',')}]`)
    }
    return `{${parts.join(',')}}`
  }
}

/** Events that the journal remembers. */
const MOST = 200
const MAX_TEXT = 300
/** Milliseconds in which the same event again is counted in its row. */
const SAME_WITHIN = 10_000

/** The events of a stream on a board, newest last. */
export class Journal {
  readonly #board: Board
  readonly #now: () => number
  readonly #rows: EventRow[] = []
  #nextID = 1

  constructor(board: Board, now: () => number) {
    this.#board = board
    this.#now = now
  }

  /** Adds an event. Its text may come from the network: it is shortened, without control characters. */
  add(level: EventLevel, kind: string, given: string): void {
    const text = given.slice(0, MAX_TEXT).replace(/\p{C}/gu, '?')
    const at = this.#now()
    const rows = this.#rows
    const same = rows.findLastIndex(row => row.text === text && row.kind === kind)
    const before = rows[same]
    if (before !== undefined && at - before.at < SAME_WITHIN) {
      const again = { ...before, at, times: before.times + 1 }
      rows[same] = again
      this.#board.put('events', again.id, again)
      return
    }
    const row = { id: this.#nextID++, at, level, kind, text, times: 1 }
    rows.push(row)
    this.#board.put('events', row.id, row)
    if (rows.length > MOST) this.#board.remove('events', (rows.shift() as EventRow).id)
  }
}
