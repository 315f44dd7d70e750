import type { EventLevel, EventRow, Message } from './messages.js'

/** The parts of a message. */
export type Section = Exclude<keyof Message, 'seq' | 'now'>
type RowOf<Name extends Section> = NonNullable<Message[Name]>[number]

interface Entry {
  json: string
  seq: number
}

/**
 * The latest state of each row that the page shows, and the number of its last change. Each row is
 * stored as JSON, so comparing strings detects a change. A slow reader gets only the latest state
 * of each row.
 */
export class Board {
  readonly #sections = new Map<Section, Map<string | number, Entry>>()
  #seq = 0

  /** The number of changes so far. */
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

  /** Removes a row, so that later messages do not contain it. */
  remove(section: Section, key: string | number): void {
    this.#sections.get(section)?.delete(key)
  }

  /**
   * The message for a reader that has seen the changes up to the number `seen`, which is 0 for a
   * new reader.
   */
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

/** The most events that the journal keeps. */
const MOST = 200
const MAX_TEXT = 300
/** If an event repeats within this many milliseconds, its existing row counts the repetition. */
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

  /**
   * Adds an event. Its text may come from the network, so it is shortened and its control
   * characters are replaced.
   */
  add(level: EventLevel, kind: string, given: string): void {
    const text = given.slice(0, MAX_TEXT).replace(/\p{C}/gu, '?')
    const at = this.#now()
    const rows = this.#rows
    const same = rows.findLastIndex(row => row.text === text && row.kind === kind)
    const before = rows[same]
    if (before !== undefined && at - before.at < SAME_WITHIN) {
      rows.splice(same, 1)
      // A message has the rows in the order in which they were put.
      this.#board.remove('events', before.id)
      this.#put({ ...before, at, times: before.times + 1 })
    } else this.#put({ id: this.#nextID++, at, level, kind, text, times: 1 })
  }

  /** Puts a row at the end, and forgets the oldest. */
  #put(row: EventRow): void {
    const rows = this.#rows
    rows.push(row)
    this.#board.put('events', row.id, row)
    if (rows.length > MOST) this.#board.remove('events', (rows.shift() as EventRow).id)
  }
}
