import { asError, DataStreamsError, isStreamsError } from '../../core/errors.js'
import type { Report } from '../../core/report.js'
import type { FetchedPage, ReportVerifier, Sink, StreamScope } from '../../core/types.js'
import { createContests } from './contests.js'
import { createOutcomes } from './outcomes.js'
import { createPressure } from './pressure.js'
import { checkAll } from './verdicts.js'

/** One place in the order of a feed. */
interface Slot {
  report: Report
  /** Whether it is passed on when its turn comes. */
  state: 'waiting' | 'good' | 'refused'
  /** A copy that is not the same, which takes the place if the report is refused. */
  rival: Report | undefined
}

/** What verifying a stream needs. */
export interface StreamStageParts {
  readonly verifier: ReportVerifier
  /** Whether the next report is to be verified. */
  readonly isChosen: () => boolean
  /** Reports that may wait before the connections are held back. */
  readonly maxPending: number
}

/**
 * Passes each report on once it is verified, in the order of its feed. What is refused is announced, and those below are told
 * to forget it.
 */
export function verifyStream(next: Sink, scope: StreamScope, parts: StreamStageParts): Sink {
  const { verifier, isChosen, maxPending } = parts
  /** By feed, the oldest first. */
  const lines = new Map<string, Slot[]>()
  /** Those that wait. */
  const slots = new Map<Report, Slot>()
  /** What was fetched, and has been judged. */
  const vetted = new WeakSet<Report>()
  const forgetters: ((report: Report, instead: Report | undefined) => void)[] = []
  const pressure = createPressure(scope, maxPending)
  const outcomes = createOutcomes(scope)
  const contests = createContests({
    scope,
    verifier,
    pressure,
    outcomes,
    replace(first, other) {
      forget(first, other)
      pass(other)
    },
  })
  let isOver = false

  scope.appoint({ contest, onRefused: listener => void forgetters.push(listener), vet })
  scope.defer(function end() {
    isOver = true
    lines.clear()
    slots.clear()
    contests.end()
  })

  function begin(slot: Slot): void {
    slots.set(slot.report, slot)
    verifier.check(slot.report, settled)
  }

  function settled(failure: Error | undefined, report: Report): void {
    const slot = slots.get(report)
    if (slot === undefined) {
      contests.settled(failure, report)
      return
    }
    slots.delete(report)
    if (failure === undefined) outcomes.accept(report)
    else outcomes.refuse(report, failure)
    if (isOver) return
    const { rival } = slot
    slot.rival = undefined
    if (failure === undefined) {
      slot.state = 'good'
      if (rival !== undefined) contests.compare(report, rival)
    } else {
      forget(report, rival)
      slot.state = rival === undefined ? 'refused' : 'waiting'
      if (rival !== undefined) {
        slot.report = rival
        begin(slot)
      }
    }
    release(report.feedID)
  }

  function release(feedID: string): void {
    const line = lines.get(feedID) ?? []
    for (let first = line[0]; first !== undefined && first.state !== 'waiting'; first = line[0]) {
      line.shift()
      if (first.state === 'good') pass(first.report)
      pressure.remove()
      if (isOver) return
    }
  }

  /** Nobody below is there to catch what is thrown, unlike where a report comes from the wire. */
  function pass(report: Report): void {
    try {
      next(report)
    } catch (cause) {
      const message = `a plugin threw on a report of feed ${report.feedID}: ${asError(cause).message}`
      scope.log.error?.(message)
      scope.fail(new DataStreamsError(message, { code: 'PLUGIN', cause }))
    }
  }

  function forget(report: Report, instead: Report | undefined): void {
    for (const each of forgetters) each(report, instead)
  }

  function contest(other: Report, first: Report | undefined): boolean {
    const slot = (first && slots.get(first)) ?? findWaiting(other)
    if (slot === undefined) {
      if (first === undefined || first.fullReport === other.fullReport) return false
      contests.compare(first, other)
    } else if (vetted.has(other)) overtake(slot, other)
    else if (slot.rival === undefined && slot.report.fullReport !== other.fullReport)
      slot.rival = other
    else scope.count('deduplicated', other)
    return true
  }

  function findWaiting({ feedID, observationsTimestamp: time }: Report): Slot | undefined {
    for (const slot of lines.get(feedID) ?? [])
      if (slot.report.observationsTimestamp === time && slot.state === 'waiting') return slot
    return undefined
  }

  /** Who fetched a report gets it at once; the one that waits is then the copy. */
  function overtake(slot: Slot, fetched: Report): void {
    const { report, rival } = slot
    slots.delete(report)
    slot.state = 'refused'
    contests.expect(fetched, report)
    forget(report, fetched)
    if (rival !== undefined) contests.compare(fetched, rival)
    next(fetched)
    release(fetched.feedID)
  }

  async function vet(page: readonly Report[]): Promise<FetchedPage> {
    const chosen = page.filter(isChosen)
    const failures = await checkAll(verifier, chosen)
    for (const failure of failures.values()) if (saysNothing(failure)) throw failure
    for (const report of chosen) {
      const failure = failures.get(report)
      if (isOver) break
      if (failure === undefined) outcomes.accept(report)
      else outcomes.refuse(report, failure)
    }
    const good = page.filter(report => !failures.has(report))
    for (const report of good) vetted.add(report)
    return Object.assign(good, { refused: [...failures.keys()].sort(byTime) })
  }

  return function takeUnverified(report) {
    if (report.source === 'backfill' && vetted.has(report)) return next(report)
    const { feedID } = report
    let line = lines.get(feedID)
    if (line === undefined) {
      line = []
      lines.set(feedID, line)
    }
    const isDoubtful = isChosen()
    if (!isDoubtful && line.length === 0) return next(report)
    if (pressure.sheds(report)) return
    const slot: Slot = { report, state: isDoubtful ? 'waiting' : 'good', rival: undefined }
    line.push(slot)
    pressure.add()
    if (isDoubtful) begin(slot)
  }
}

/** True where nothing was found out of a report, so that it is worth another try. */
function saysNothing(failure: Error): boolean {
  return (
    !isStreamsError(failure, 'VERIFICATION') ||
    failure.reason === 'signers-unavailable' ||
    failure.reason === 'engine-unavailable'
  )
}

function byTime(one: Report, other: Report): number {
  return one.observationsTimestamp - other.observationsTimestamp
}
