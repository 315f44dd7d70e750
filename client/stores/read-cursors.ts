import { DataStreamsError } from '../../core/errors.js'
import { isFeedID } from '../../report/feed-id.js'

/** Reads cursors from JSON. Errors name the place where the JSON is stored. */
export function readCursors(text: string, place: string): Readonly<Record<string, number>> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw noCursors(place, 'it is not JSON', { cause })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw noCursors(place, 'it is not an object')
  const cursors: Record<string, number> = {}
  for (const [feedID, cursor] of Object.entries(value)) {
    const name = JSON.stringify(feedID.slice(0, 80))
    if (!isFeedID(feedID)) throw noCursors(place, `${name} is no feed id`)
    if (!Number.isSafeInteger(cursor) || cursor < 0)
      throw noCursors(place, `the cursor of ${name} is no time`)
    cursors[feedID.toLowerCase()] = cursor
  }
  return cursors
}

/** The error for a place whose content is not cursors; `rule` says what is wrong. */
export function noCursors(
  place: string,
  rule: string,
  facts?: { readonly cause: unknown },
): DataStreamsError {
  return new DataStreamsError(`${place} holds no cursors: ${rule}`, facts)
}
