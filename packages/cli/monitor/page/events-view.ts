import type { EventRow } from '../messages.js'
import { byID, formatTime, make, setText } from './dom.js'

/** The most rows that the list shows. */
const MOST = 200
/** Milliseconds between two announcements of events, so that a listener can follow. */
const PAUSE = 5000

/** The list of events, and the announcements for screen readers. */
export interface EventsView {
  add(event: EventRow): void
  /** Announces a text at once. */
  say(text: string): void
}

/**
 * Makes the list, newest first. Events older than `PAUSE`, such as those from before the page was
 * opened, are not announced.
 */
export function createEventsView(): EventsView {
  const list = byID('event-rows')
  const announcer = byID('announcer')
  const rows = new Map<number, HTMLElement>()
  const waiting: string[] = []
  let isSaying = false

  function sayWaiting(): void {
    isSaying = false
    const [first] = waiting
    if (first === undefined) return
    setText(announcer, waiting.length === 1 ? first : `${waiting.length} events: ${first}`)
    waiting.length = 0
    isSaying = true
    setTimeout(sayWaiting, PAUSE)
  }

  return {
    add({ id, at, level, kind, text, times }) {
      const row = rows.get(id) ?? make('li')
      const isNew = !rows.has(id)
      const shape = make('i', 'shape')
      shape.ariaHidden = 'true'
      const time = make('time', '', formatTime(at))
      time.dateTime = new Date(at).toISOString()
      const often = times > 1 ? [make('span', 'times', `× ${times}`)] : []
      row.dataset.level = level
      row.replaceChildren(
        time,
        make('span', 'kind', shape, kind),
        make('span', 'text', text),
        ...often,
      )
      rows.delete(id)
      rows.set(id, row)
      list.prepend(row)
      byID('no-events').hidden = true
      if (rows.size > MOST) {
        const [oldest] = rows.keys()
        rows.get(oldest as number)?.remove()
        rows.delete(oldest as number)
      }
      if (isNew && Date.now() - at < PAUSE && waiting.length < MOST)
        waiting.push(`${kind}: ${text}`)
      if (!isSaying) sayWaiting()
    },
    say: text => setText(announcer, text),
  }
}
