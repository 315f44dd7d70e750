import { copyBytes, isSame } from '../../platform/bytes.js'
import type { Report } from '../../report/report.js'

/**
 * The position of a connection in the order of all messages. Most connections bring the same
 * messages in the same order.
 */
export interface Place {
  next: number
  /** How many bytes this connection is ahead of the others; 0 after a duplicate. */
  lead: number
}

interface Entry {
  bytes: Uint8Array
  report: Report
}

/**
 * The number of messages in the cache. It must be a power of two, because it is used as a bit mask.
 */
const SIZE = 512
/** The prime of the FNV-1a hash. */
const PRIME = 0x0100_0193

/**
 * A cache of messages and their reports. It recognises a duplicate by its bytes, so that no
 * duplicate is parsed again. Its memory grows with the messages, up to `SIZE` of them.
 */
export class DuplicateCache {
  /** The last messages; message `n` is at `n` modulo the size. */
  readonly #ring: Entry[] = []
  #count = 0
  /** The number of the newest message, by hash. */
  readonly #newest = new Float64Array(4 * SIZE).fill(Number.POSITIVE_INFINITY)
  #lastHash = 0

  /** Returns the report of a cached message with the same bytes. */
  find(data: Uint8Array, place: Place): Report | undefined {
    const report = this.#compare(data, place.next, place)
    if (report !== undefined) return report
    this.#lastHash = hash(data)
    return this.#compare(data, this.#newest[this.#lastHash] as number, place)
  }

  /** Adds a message. The last call of `find` must have been for this message, without a result. */
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
 * Hashes bytes from three places. In most messages these are the ends of the feed id, of the last
 * signature and of the time.
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
