import type { StreamScope } from '../../client/scope.js'
import { DIGITS } from '../../report/full-report.js'
import { createOverflowGaps } from '../../report/overflow-gaps.js'
import type { Report } from '../../report/report.js'
import type { Slot } from './observations.js'

/** The reports of each feed and configuration, in their order. Nobody who invents a configuration delays the others. */
export interface Lines {
  /** True where reports of the same feed and configuration wait. */
  has(report: Report): boolean
  /** True where a report must be dropped, since a connection can't be paused: its gap is announced. */
  sheds(report: Report): boolean
  /** Adds a report, behind the others of its observation if they are in the same line. */
  add(slot: Slot): void
  /** Passes on those at the head of a report's line that are ready. */
  advance(report: Report): void
}

/**
 * Makes the lines of a stream. The connections are paused where `limit` reports wait, until it is half as many. `pass` takes
 * each slot that is ready when it has come to the head of its line.
 */
export function createLines(scope: StreamScope, limit: number, pass: (slot: Slot) => void): Lines {
  /** None is empty. */
  const lines = new Map<string, Slot[]>()
  const gaps = createOverflowGaps(gap => scope.events.emit('gap', gap))
  let waiting = 0
  let pause: ReturnType<StreamScope['flow']['pause']> | undefined

  function added(): void {
    waiting++
    if (waiting < limit || pause !== undefined) return
    scope.log.warn?.(`${waiting} reports wait to be verified`)
    pause = scope.flow.pause()
  }

  function removed(): void {
    waiting--
    if (pause === undefined || waiting > limit >> 1) return
    pause.resume()
    pause = undefined
    gaps.announceAll()
  }

  return {
    has: report => lines.has(keyOf(report)),
    sheds(report) {
      // What was read before a connection was paused still comes.
      if (waiting < 2 * limit || pause?.leaks !== true) return false
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
