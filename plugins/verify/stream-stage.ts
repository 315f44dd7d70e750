import type { Sink } from '../../client/plugin.js'
import type { FetchedPage, StreamScope, VerdictListener } from '../../client/scope.js'
import { asError, DataStreamsError, isStreamsError } from '../../core/errors.js'
import { DIGITS } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'
import { createContests } from './contests.js'
import { createOutcomes } from './outcomes.js'
import { createPressure } from './pressure.js'
import { checkAll } from './verdicts.js'

/** Copies that differ from one that waits are tried too, if it is refused: one of each origin, and so many at most. */
const MAX_RIVALS = 8

/** One place in the order of a line. */
interface Slot {
  report: Report
  /** Whether it is passed on when its turn comes. */
  state: 'waiting' | 'good' | 'refused'
  /** Copies that are not the same, of the same configuration: each takes the place if the one before is refused. */
  readonly rivals: Report[]
  /** The origins of the copies that were not the same. */
  readonly contenders: string[]
}

/** Reports of one feed and configuration, the oldest first. */
type Line = Slot[]

/** What verifying a stream needs. */
export interface StreamStageParts {
  readonly verifier: ReportVerifier
  /** Whether the next report is to be verified. */
  readonly isChosen: () => boolean
  /** Reports that may wait before the connections are held back. */
  readonly maxPending: number
}

/**
 * Passes each report on once it is verified, in the order of its feed and configuration: who invents a configuration holds
 * nobody else up. What is refused is announced, and those below are told what came of each.
 */
export function verifyStream(next: Sink, scope: StreamScope, parts: StreamStageParts): Sink {
  const { verifier, isChosen, maxPending } = parts
  /** By feed and configuration; none is empty. */
  const lines = new Map<string, Map<string, Line>>()
  /** Those that wait. */
  const slots = new Map<Report, Slot>()
  /** What was fetched, and has been judged. */
  const vetted = new WeakSet<Report>()
  const listeners: VerdictListener[] = []
  const pressure = createPressure(scope, maxPending)
  const outcomes = createOutcomes(scope)
  const contests = createContests({
    scope,
    verifier,
    pressure,
    outcomes,
    limit: Math.max(1, maxPending >> 1),
    replace(first, other) {
      tellRefused(first, other)
      hand(other)
    },
  })
  let isOver = false

  scope.appoint({ contest, listen: listener => void listeners.push(listener), vet })
  scope.defer(function end() {
    isOver = true
    lines.clear()
    slots.clear()
    contests.end()
  })

  function enter(report: Report, isDoubtful: boolean): void {
    const { feedID } = report
    const digest = digestOf(report)
    const ofFeed = lines.get(feedID) ?? new Map<string, Line>()
    lines.set(feedID, ofFeed)
    const slot: Slot = {
      report,
      state: isDoubtful ? 'waiting' : 'good',
      rivals: [],
      contenders: [],
    }
    const line = ofFeed.get(digest)
    if (line === undefined) ofFeed.set(digest, [slot])
    else line.push(slot)
    pressure.add()
    if (isDoubtful) begin(slot)
  }

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
    if (failure === undefined) {
      slot.state = 'good'
      for (const rival of slot.rivals.splice(0)) contests.compare(report, rival)
    } else {
      const rival = slot.rivals.shift()
      slot.state = rival === undefined ? 'refused' : 'waiting'
      tellRefused(report, rival ?? slotsOf(report)[0]?.report)
      if (rival !== undefined) {
        slot.report = rival
        begin(slot)
      }
    }
    release(report)
  }

  function release(one: Report): void {
    const { feedID } = one
    const digest = digestOf(one)
    const line = lines.get(feedID)?.get(digest)
    if (line === undefined) return
    for (let first = line[0]; first !== undefined && first.state !== 'waiting'; first = line[0]) {
      line.shift()
      if (first.state === 'good') pass(first.report)
      pressure.remove()
      if (isOver) return
    }
    const ofFeed = lines.get(feedID)
    if (line.length > 0 || ofFeed?.get(digest) !== line) return
    ofFeed.delete(digest)
    if (ofFeed.size === 0) lines.delete(feedID)
  }

  /** The first good one of an observation is passed on; whatever else waits in its name is then a copy. */
  function pass(report: Report): void {
    const others = slotsOf(report)
    for (const slot of others) {
      if (slots.delete(slot.report)) contests.expect(report, slot.report)
      else contests.compare(report, slot.report)
      for (const rival of slot.rivals.splice(0)) contests.compare(report, rival)
      slot.state = 'refused'
    }
    tellPassed(report)
    hand(report)
    for (const slot of others) release(slot.report)
  }

  /** Nobody below is there to catch what is thrown, unlike where a report comes from the wire. */
  function hand(report: Report): void {
    try {
      next(report)
    } catch (cause) {
      const message = `a plugin threw on a report of feed ${report.feedID}: ${asError(cause).message}`
      scope.log.error?.(message)
      scope.fail(new DataStreamsError(message, { code: 'PLUGIN', cause }))
    }
  }

  function tellPassed(report: Report): void {
    for (const each of listeners) each.passed(report)
  }

  function tellRefused(report: Report, instead: Report | undefined): void {
    for (const each of listeners) each.refused(report, instead)
  }

  function contest(other: Report, first: Report | undefined): boolean {
    const waiting = first && slots.get(first)
    if (waiting === undefined) {
      if (first === undefined || first.fullReport === other.fullReport) return false
      contests.compare(first, other)
    } else if (vetted.has(other)) pass(other)
    else if (!contend(waiting, other)) scope.count('deduplicated', other)
    return true
  }

  /** Has another looked at as well, unless it is one too many: in its turn, or at once if that is of another line. */
  function contend(waiting: Slot, other: Report): boolean {
    const { contenders } = waiting
    const { fullReport, origin } = other
    if (contenders.length === MAX_RIVALS || contenders.includes(origin)) return false
    const all = slotsOf(other)
    if (all.some(({ report, rivals }) => [report, ...rivals].some(isSame))) return false
    contenders.push(origin)
    const slot = all.find(({ report }) => digestOf(report) === digestOf(other))
    if (slot === undefined) enter(other, true)
    else if (slot.state === 'waiting') slot.rivals.push(other)
    else contests.compare(slot.report, other)
    return true

    function isSame(each: Report): boolean {
      return each.fullReport === fullReport
    }
  }

  /** Those of an observation that wait for their verdict or their turn. */
  function slotsOf({ feedID, observationsTimestamp: time }: Report): Slot[] {
    const found: Slot[] = []
    if (listeners.length === 0) return found
    for (const line of lines.get(feedID)?.values() ?? [])
      for (const slot of line)
        if (slot.report.observationsTimestamp === time && slot.state !== 'refused') found.push(slot)
    return found
  }

  async function vet(page: readonly Report[]): Promise<FetchedPage> {
    const chosen = page.filter(isChosen)
    const failures = await checkAll(verifier, chosen, scope.signal)
    const refused: Report[] = []
    const undecided = new Map<Report, Error>()
    for (const report of chosen) {
      const failure = failures.get(report)
      if (isOver) break
      if (failure === undefined) outcomes.accept(report)
      else if (saysNothing(failure)) {
        undecided.set(report, failure)
        outcomes.doubt(report, failure)
      } else {
        refused.push(report)
        outcomes.refuse(report, failure)
      }
    }
    const good = page.filter(report => !failures.has(report))
    for (const report of good) vetted.add(report)
    return Object.assign(good, { refused, undecided })
  }

  return function takeUnverified(report) {
    const isDoubtful = isChosen()
    const isFree =
      (report.source === 'backfill' && vetted.has(report)) ||
      (!isDoubtful && !lines.get(report.feedID)?.has(digestOf(report)))
    if (isFree) {
      tellPassed(report)
      next(report)
    } else if (pressure.sheds(report)) tellRefused(report, undefined)
    else enter(report, isDoubtful)
  }
}

/** The configuration that a report names. */
function digestOf({ fullReport }: Report): string {
  return fullReport.slice(2, 2 + DIGITS).toLowerCase()
}

/** True where nothing was found out of a report, so that it is worth another try. */
function saysNothing(failure: Error): boolean {
  return (
    !isStreamsError(failure, 'VERIFICATION') ||
    failure.reason === 'signers-unavailable' ||
    failure.reason === 'engine-unavailable'
  )
}
