import type { StreamScope } from '../../client/contract/scope.js'
import { DIGITS } from '../../report/full-report.js'
import { createOverflowGaps } from '../../report/overflow-gaps.js'
import type { Report } from '../../report/report.js'
import type { Slot } from './observations.js'

/** The waiting reports of each feed and configuration, in order. Invented configurations do not delay the others. */
export interface Lines {
  /** How many reports wait. */
  readonly waiting: number
  /** The report that waits longest. */
  oldest(): Slot | undefined
  /** True where reports of the same feed and configuration wait. */
  has(report: Report): boolean
  /** Drops a report where too many wait and a connection can't be paused: announces its gap and returns true. */
  sheds(report: Report): boolean
  /** Adds a report, after the others of its observation if they are in the same line. */
  add(slot: Slot): void
  /** Passes on the ready reports at the head of a report's line. */
  advance(report: Report): void
}

/**
 * Creates the lines of a stream. The connections are paused when `limit` reports wait, until only half as many do. `pass` is
 * called with each ready slot that reaches the head of its line.
 */
export function createLines(scope: StreamScope, limit: number, pass: (slot: Slot) => void): Lines {
  /** None is empty. */
  const lines = new Map<string, Slot[]>()
  const gaps = createOverflowGaps(gap => scope.events.emit('gap', gap))
  scope.events.on('ending', gaps.flushAll)
  scope.defer(gaps.flushAll)
  let waiting = 0
  let pause: ReturnType<StreamScope['flow']['pause']> | undefined

  function added(): void {
    waiting++
    if (waiting < limit || pause !== undefined) return
    scope.log.warn?.(`${waiting} reports wait to be verified: the connections are paused`)
    pause = scope.flow.pause()
  }

  function removed(): void {
    waiting--
    if (pause === undefined || waiting > limit >> 1) return
    pause.resume()
    pause = undefined
    gaps.flushAll()
  }

  return {
    get waiting() {
      return waiting
    },
    oldest() {
      let oldest: Slot | undefined
      for (const line of lines.values())
        for (const slot of line)
          if (oldest === undefined || slot.since < oldest.since) oldest = slot
      return oldest
    },
    has: report => lines.has(keyOf(report)),
    sheds(report) {
      // Reports that were read before a connection was paused still arrive.
      if (waiting < 2 * limit || pause?.hasUnpausable !== true) return false
      gaps.add(report)
      return true
    },
    add(slot) {
      const { observation, report } = slot
      const line = lines.get(keyOf(report)) ?? []
      lines.set(keyOf(report), line)
      const isFirst = observation.slots.length === 1
      const last = isFirst ? -1 : line.findLastIndex(each => each.observation === observation)
      if (last === -1) line.push(slot)
      else line.splice(last + 1, 0, slot)
      added()
    },
    advance(report) {
      const line = lines.get(keyOf(report))
      if (line === undefined) return
      for (let first = line[0]; first !== undefined && first.state !== 'waiting'; first = line[0]) {
        line.shift()
        if (first.state === 'ready') pass(first)
        removed()
      }
      if (line.length === 0) lines.delete(keyOf(report))
    },
  }
}

/** The feed of a report, and the configuration that it names. */
function keyOf({ feedID, fullReport }: Report): string {
  return feedID + fullReport.slice(2, 2 + DIGITS).toLowerCase()
}
