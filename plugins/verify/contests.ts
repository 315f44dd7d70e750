import type { StreamScope } from '../../client/scope.js'
import { isSameBlob } from '../../report/full-report.js'
import type { Report } from '../../report/report.js'
import type { ReportVerifier } from '../../report/verifier.js'
import type { Outcomes } from './outcomes.js'
import type { Pressure } from './pressure.js'

/** Decides between a report that was passed on and others of its observation. */
export interface Contests {
  /** Another has come: a copy, or to be verified. */
  compare(first: Report, other: Report): void
  /** Another is being verified already, and `settled` will hear of it. */
  expect(first: Report, other: Report): void
  /** What came of one that was expected. */
  settled(failure: Error | undefined, other: Report): void
  end(): void
}

/** What contests need of their stream. */
export interface ContestsParts {
  readonly scope: StreamScope
  readonly verifier: ReportVerifier
  readonly pressure: Pressure
  readonly outcomes: Outcomes
  /** So many others are looked at a time; more are taken for copies, since the first has been passed on. */
  readonly limit: number
  /** The first turns out to be forged: the other is passed on as well. */
  replace(first: Report, other: Report): void
}

/** Tells of a conflict only where both are signed as they should be. */
export function createContests(parts: ContestsParts): Contests {
  const { scope, verifier, pressure, outcomes, limit } = parts
  /** The first by the other. */
  const firsts = new Map<Report, Report>()
  /** What was passed on in the place of a first that was forged. */
  const heirs = new WeakMap<Report, Report>()
  let isOver = false

  function expect(first: Report, other: Report): void {
    firsts.set(other, first)
    pressure.add()
  }

  function compare(first: Report, other: Report): void {
    if (firsts.size >= limit || isSameBlob(first.fullReport, other.fullReport)) {
      scope.count('deduplicated', other)
      return
    }
    expect(first, other)
    verifier.check(other, settled)
  }

  function settled(failure: Error | undefined, other: Report): void {
    const first = firsts.get(other)
    if (first === undefined) return
    firsts.delete(other)
    pressure.remove()
    if (failure !== undefined) {
      outcomes.refuse(other, failure)
      return
    }
    outcomes.accept(other)
    if (outcomes.isVerified(first) || heirs.has(first)) tell(first, other)
    else verifier.check(first, wrong => doubted(first, other, wrong))
  }

  /** The first was passed on without being verified. */
  function doubted(first: Report, other: Report, failure: Error | undefined): void {
    if (isOver) return
    if (failure === undefined || heirs.has(first)) {
      if (failure === undefined) outcomes.accept(first)
      tell(first, other)
    } else {
      outcomes.refuse(first, failure)
      heirs.set(first, other)
      parts.replace(first, other)
    }
  }

  function tell(passed: Report, other: Report): void {
    const first = heirs.get(passed) ?? passed
    scope.count('deduplicated', other)
    if (!isSameBlob(first.fullReport, other.fullReport)) scope.conflict(first, other)
  }

  return {
    compare,
    expect,
    settled,
    end() {
      isOver = true
      firsts.clear()
    },
  }
}
