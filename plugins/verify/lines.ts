import { DIGITS } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import type { Slot } from './observations.js'
import type { Pressure } from './pressure.js'

/** The reports of each feed and configuration, in their order. Nobody who invents a configuration delays the others. */
export interface Lines {
  /** True where reports of the same feed and configuration wait. */
  has(report: Report): boolean
  /** Adds a report, behind the others of its observation if they are in the same line. */
  add(slot: Slot): void
  /** Passes on those at the head of a report's line that are ready. */
  advance(report: Report): void
  end(): void
}

/** Makes the lines of a stream; `pass` takes each slot that is ready when it has come to the head of its line. */
export function createLines(pressure: Pressure, pass: (slot: Slot) => void): Lines {
  /** By feed and configuration; none is empty. */
  const feeds = new Map<string, Map<string, Slot[]>>()

  function lineOf({ report }: Slot): Slot[] {
    const { feedID } = report
    const digest = digestOf(report)
    const lines = feeds.get(feedID) ?? new Map<string, Slot[]>()
    feeds.set(feedID, lines)
    const line = lines.get(digest) ?? []
    lines.set(digest, line)
    return line
  }

  return {
    has: report => feeds.get(report.feedID)?.has(digestOf(report)) === true,
    add(slot) {
      const { observation } = slot
      const line = lineOf(slot)
      const isFirst = observation.slots.length === 1
      const last = isFirst ? -1 : line.findLastIndex(each => each.observation === observation)
      if (last === -1) line.push(slot)
      else line.splice(last + 1, 0, slot)
      pressure.add()
    },
    advance(report) {
      const digest = digestOf(report)
      const lines = feeds.get(report.feedID)
      const line = lines?.get(digest)
      if (lines === undefined || line === undefined) return
      for (let first = line[0]; first !== undefined && first.state !== 'waiting'; first = line[0]) {
        line.shift()
        if (first.state === 'ready') pass(first)
        pressure.remove()
      }
      if (line.length > 0) return
      lines.delete(digest)
      if (lines.size === 0) feeds.delete(report.feedID)
    },
    end() {
      for (const lines of feeds.values()) for (const line of lines.values()) line.length = 0
      feeds.clear()
    },
  }
}

/** The configuration that a report names. */
function digestOf({ fullReport }: Report): string {
  return fullReport.slice(2, 2 + DIGITS).toLowerCase()
}
