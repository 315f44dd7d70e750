import type { EventRow } from '../messages.js'
import { byID, formatTime, make, setText, zoneOf } from './dom.js'

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
  const zone = byID('events-zone')
  const announcer = byID('announcer')
  /** The shown events, the newest first. */
  let shown: EventRow[] = []
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
    add(event) {
      const { id, at, level, kind, text, times } = event
      const row = rows.get(id) ?? make('li')
      const isNew = !rows.has(id)
      const shape = make('i', 'shape')
      shape.ariaHidden = 'true'
      const time = make('time', '', formatTime(at))
      setText(zone, `times in ${zoneOf(at)}`)
      time.dateTime = new Date(at).toISOString()
      const often = times > 1 ? [make('span', 'times', `× ${times}`)] : []
      row.dataset.level = level
      row.replaceChildren(
        time,
        make('span', 'kind', shape, kind),
        make('span', 'text', text),
        ...often,
      )
      rows.set(id, row)
      shown = shown.filter(each => each.id !== id)
      const after = shown.findIndex(each => each.at < at || (each.at === at && each.id < id))
      const place = after === -1 ? shown.length : after
      shown.splice(place, 0, event)
      list.insertBefore(row, rows.get(shown[place + 1]?.id ?? 0) ?? null)
      byID('no-events').hidden = true
      for (const oldest of shown.splice(MOST)) {
        rows.get(oldest.id)?.remove()
        rows.delete(oldest.id)
      }
      if (isNew && Date.now() - at < PAUSE && waiting.length < MOST)
        waiting.push(`${kind}: ${text}`)
      if (!isSaying) sayWaiting()
    },
    say: text => setText(announcer, text),
  }
}
