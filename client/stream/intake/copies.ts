import type { Report } from '../../../report/report.js'

/** Remembers messages, so that a copy is known by its bytes, without another look at what they say. */
export interface Copies {
  /** The report of a message that was, byte for byte, the same. */
  find(data: Uint8Array, place: Place): Report | undefined
  /** Remembers the message that was not found last. */
  keep(data: Uint8Array, report: Report, place: Place): void
}

/** Where in the order of all messages a connection is: most bring the same ones, one after the other. */
export interface Place {
  next: number
  /** Bytes that it has brought first, since it last brought a copy. */
  lead: number
}

interface Kept {
  bytes: Buffer
  report: Report
}

/** So many messages are remembered, a power of two. */
const KEPT = 512
/** The prime of the hash, FNV-1a. */
const PRIME = 0x0100_0193

/** Makes an empty copies. It takes memory as messages come. */
export function createCopies(): Copies {
  /** The messages in their order, written round and round. */
  const ring: Kept[] = []
  let count = 0
  /** By their hash: where in the order they are. Whoever comes later takes the place. */
  const index = new Float64Array(4 * KEPT).fill(Number.POSITIVE_INFINITY)
  let lastHash = 0

  function look(data: Uint8Array, at: number, place: Place): Report | undefined {
    if (at < count - KEPT || at >= count) return undefined
    const kept = ring[at & (KEPT - 1)] as Kept
    if (kept.bytes.length !== data.length || !kept.bytes.equals(data)) return undefined
    place.next = at + 1
    place.lead = 0
    return kept.report
  }

  return {
    find(data, place) {
      const report = look(data, place.next, place)
      if (report !== undefined) return report
      lastHash = hash(data)
      return look(data, index[lastHash] as number, place)
    },
    keep(data, report, place) {
      const kept = ring[count & (KEPT - 1)]
      index[lastHash] = count
      if (kept?.bytes.length === data.length) {
        kept.bytes.set(data)
        kept.report = report
      } else ring[count & (KEPT - 1)] = { bytes: Buffer.from(data), report }
      count++
      place.next = count
      place.lead += data.length
    },
  }
}

/** Mixes bytes from where messages mostly have the end of a feed's id, of the last signature and of the time. */
function hash(data: Uint8Array): number {
  const { length } = data
  let value = length
  for (let at = 80; at < 88; at++) value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  for (let at = length - 104; at < length - 96; at++)
    value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  for (let at = length - 6; at < length - 2; at++) value = Math.imul(value ^ (data[at] ?? 0), PRIME)
  return (value ^ (value >>> 15)) & (4 * KEPT - 1)
}
