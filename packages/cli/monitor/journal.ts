import type { Board } from './board.js'
import type { EventLevel, EventRow } from './messages.js'

/** Events that are remembered. */
const MOST = 200
const MAX_TEXT = 300
/** Milliseconds in which the same event again is counted, and not a further row. */
const SAME_WITHIN = 10_000

/** What has happened, newest last. */
export interface Journal {
  add(level: EventLevel, kind: string, text: string): void
}

/** Makes a journal that writes on a board. A text may come from the network: it is shortened, without control characters. */
export function createJournal(board: Board, now: () => number): Journal {
  const rows: EventRow[] = []
  let nextID = 1

  function put(row: EventRow): void {
    board.put('events', row.id, row)
  }

  return {
    add(level, kind, text) {
      const clean = text.slice(0, MAX_TEXT).replace(/\p{C}/gu, '?')
      const at = now()
      const same = rows.findLastIndex(row => row.text === clean && row.kind === kind)
      const before = rows[same]
      if (before !== undefined && at - before.at < SAME_WITHIN) {
        const again = { ...before, at, times: before.times + 1 }
        rows[same] = again
        put(again)
        return
      }
      const row = { id: nextID++, at, level, kind, text: clean, times: 1 }
      rows.push(row)
      put(row)
      if (rows.length > MOST) board.remove('events', (rows.shift() as EventRow).id)
    },
  }
}
