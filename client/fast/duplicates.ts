import { copyBytes, isSame } from '../../platform/bytes.js'
import type { Report } from '../../report/report.js'

/**
 * How far a connection is in the order of all messages: most connections bring the same messages in
 * the same order.
 */
export interface Place {
  next: number
  /** Bytes that the connection has brought before any other, since it last brought a duplicate. */
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

/**
 * A cache of messages and their reports. It recognises a duplicate by its bytes, so that no
 * duplicate is parsed again. It takes memory as messages come.
 */
export class DuplicateCache {
  /** The last messages; message `n` is at `n` modulo the size. */
  readonly #ring: Entry[] = []
  #count = 0
  /** The number of the newest message of each hash. */
  readonly #newest = new Float64Array(4 * SIZE).fill(Number.POSITIVE_INFINITY)
  #lastHash = 0

  /** The report of a message with the same bytes. */
  find(data: Uint8Array, place: Place): Report | undefined {
    const report = this.#compare(data, place.next, place)
    if (report !== undefined) return report
    this.#lastHash = hash(data)
    return this.#compare(data, this.#newest[this.#lastHash] as number, place)
  }

  /** Adds the message that `find` has just not found. */
  add(data: Uint8Array, report: Report, place: Place): void {
    const index = this.#count & (SIZE - 1)
    const entry = this.#ring[index]
    this.#newest[this.#lastHash] = this.#count
    if (entry?.bytes.length === data.length) {
      entry.bytes.set(data)
      entry.report = report
    } else this.#ring[index] = { bytes: copyBytes(data), report }
    place.next = ++this.#count
    place.lead += data.length
  }

  #compare(data: Uint8Array, number: number, place: Place): Report | undefined {
    if (number < this.#count - SIZE || number >= this.#count) return undefined
    const { bytes, report } = this.#ring[number & (SIZE - 1)] as Entry
    if (bytes.length !== data.length || !isSame(bytes, data)) return undefined
    place.next = number + 1
    place.lead = 0
    return report
  }
}

/**
 * Mixes bytes from the places where most messages end the feed id, the last signature and the time.
 */
function hash(data: Uint8Array): number {
  const { length } = data
  let value = length
  for (let at = 80; at < 88; at++) value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  for (let at = length - 104; at < length - 96; at++)
    value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  for (let at = length - 6; at < length - 2; at++) value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  return (value ^ (value >>> 15)) & (4 * SIZE - 1)
}
