import type { Report } from './report.js'

/** Remembers messages, so that a copy is known by its bytes, without another look at what they say. */
export interface FrameMemo {
  /** The report of a message that was, byte for byte, the same. */
  find(data: Uint8Array): Report | undefined
  keep(data: Uint8Array, report: Report): void
}

interface Kept {
  bytes: Buffer
  report: Report
}

/** By their hash messages have so many places, a power of two; of those with the same one the latest is remembered. */
const PLACES = 1024
/** The prime of the hash, FNV-1a. */
const PRIME = 0x0100_0193

/** Makes an empty memo. It takes memory as messages come. */
export function createFrameMemo(): FrameMemo {
  const places = new Map<number, Kept>()

  return {
    find(data) {
      const kept = places.get(hash(data))
      if (kept === undefined || kept.bytes.length !== data.length) return undefined
      return kept.bytes.equals(data) ? kept.report : undefined
    },
    keep(data, report) {
      const place = hash(data)
      const kept = places.get(place)
      if (kept?.bytes.length === data.length) {
        kept.bytes.set(data)
        kept.report = report
      } else places.set(place, { bytes: Buffer.from(data), report })
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
  return (value ^ (value >>> 15)) & (PLACES - 1)
}
