import type { Message } from './messages.js'

/** The parts of a message. */
export type Section = Exclude<keyof Message, 'seq' | 'now'>
type RowOf<Name extends Section> = NonNullable<Message[Name]>[number]

/** The latest of everything that the page shows, and when it changed. */
export interface Board {
  /** Puts a row in the place of the one with its key. The same again changes nothing. */
  put<Name extends Section>(section: Name, key: string | number, row: RowOf<Name>): void
  /** Removes a row from what new readers get. */
  remove(section: Section, key: string | number): void
  /** Counts each change. */
  readonly seq: number
  /** The message for a reader who has seen everything up to `seq`; 0 for one who has seen nothing. */
  since(seq: number, now: number): string
}

interface Entry {
  json: string
  seq: number
}

/**
 * Makes an empty board. It holds each row as JSON, so a change is seen by comparing texts, and a reader that was left out for a while
 * gets the latest of each row once, and nothing in between.
 */
export function createBoard(): Board {
  const sections = new Map<Section, Map<string | number, Entry>>()
  let seq = 0

  return {
    put(section, key, row) {
      const json = JSON.stringify(row)
      let entries = sections.get(section)
      if (entries === undefined) {
        entries = new Map()
        sections.set(section, entries)
      }
      const entry = entries.get(key)
      if (entry === undefined) entries.set(key, { json, seq: ++seq })
      else if (entry.json !== json) {
        entry.json = json
        entry.seq = ++seq
      }
    },
    remove(section, key) {
      sections.get(section)?.delete(key)
    },
    get seq() {
      return seq
    },
    since(seen, now) {
      const parts = [`"seq":${seq},"now":${now}`]
      for (const [section, entries] of sections) {
        const rows: string[] = []
        for (const entry of entries.values()) if (entry.seq > seen) rows.push(entry.json)
        if (rows.length > 0) parts.push(`"${section}":[${rows.join(',')}]`)
      }
      return `{${parts.join(',')}}`
    },
  }
}
