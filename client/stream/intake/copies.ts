import { copyBytes, isSame } from '../../../platform/bytes.js'
import type { Report } from '../../../report/report.js'

/** A cache of messages and their reports, so that a copy is recognised by its bytes and not parsed again. */
export interface CopyCache {
  /** The report of a message with the same bytes. */
  find(data: Uint8Array, place: Place): Report | undefined
  /** Adds the message that `find` has just not found. */
  add(data: Uint8Array, report: Report, place: Place): void
}

/** How far a connection is in the order of all messages: most connections bring the same ones in the same order. */
export interface Place {
  next: number
  /** Bytes it has brought before any other connection, since it last brought a copy. */
  lead: number
}

interface Entry {
  bytes: Uint8Array
  report: Report
}

/** Messages in the cache, a power of two. */
const SIZE = 512
/** The prime of the hash, FNV-1a. */
const PRIME = 0x0100_0193

/** Makes an empty cache. It takes memory as messages come. */
export function createCopyCache(): CopyCache {
  /** The last messages; message `n` is at `n` modulo the size. */
  const ring: Entry[] = []
  let count = 0
  /** The number of the newest message of each hash. */
  const newest = new Float64Array(4 * SIZE).fill(Number.POSITIVE_INFINITY)
  let lastHash = 0

  function compare(data: Uint8Array, number: number, place: Place): Report | undefined {
    if (number < count - SIZE || number >= count) return undefined
    const entry = ring[number & (SIZE - 1)] as Entry
    if (entry.bytes.length !== data.length || !isSame(entry.bytes, data)) return undefined
    place.next = number + 1
    place.lead = 0
    return entry.report
  }

  return {
    find(data, place) {
      const report = compare(data, place.next, place)
      if (report !== undefined) return report
      lastHash = hash(data)
      return compare(data, newest[lastHash] as number, place)
    },
    add(data, report, place) {
      const entry = ring[count & (SIZE - 1)]
      newest[lastHash] = count
      if (entry?.bytes.length === data.length) {
        entry.bytes.set(data)
        entry.report = report
      } else ring[count & (SIZE - 1)] = { bytes: copyBytes(data), report }
      count++
      place.next = count
      place.lead += data.length
    },
  }
}

/** Mixes bytes from where most messages have the end of the feed id, of the last signature and of the time. */
function hash(data: Uint8Array): number {
  const { length } = data
  let value = length
  for (let at = 80; at < 88; at++) value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  for (let at = length - 104; at < length - 96; at++)
    value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  for (let at = length - 6; at < length - 2; at++) value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  return (value ^ (value >>> 15)) & (4 * SIZE - 1)
}
