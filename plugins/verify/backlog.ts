import type { StreamScope } from '../../client/contract/scope.js'
import type { VerificationMetrics } from '../../report/verifier.js'
import type { Lines } from './lines.js'
import type { VerifierState } from './verifier.js'

/** Milliseconds for which a report may wait to be verified; when one waits longer, the stream is behind. */
export const BEHIND = 2000
/** Milliseconds from one check to the next, while reports wait. */
const CHECK = 250

/** Counts and dates what waits in a stream to be verified; says when the stream falls behind, and when it has caught up. */
export function watchBacklog(scope: StreamScope, lines: Lines, state: VerifierState): Backlog {
  /** What the oldest report waited for when the stream fell behind, until it has caught up. */
  let cause: 'signers' | 'recovery' | undefined
  let timer: ReturnType<typeof setInterval> | undefined

  function ageOfOldest(): number {
    const oldest = lines.oldest()
    return oldest === undefined ? 0 : Math.round(performance.now() - oldest.since)
  }

  function check(): void {
    const oldestMs = ageOfOldest()
    const { waiting } = lines
    const { threads } = state.facts()
    if (cause === undefined && oldestMs > BEHIND) {
      const oldest = lines.oldest()
      cause = oldest && state.awaitsSigners(oldest.report) ? 'signers' : 'recovery'
      scope.events.emit('status', { type: 'behind', waiting, oldestMs, cause, threads })
    } else if (cause !== undefined && oldestMs < BEHIND / 2) {
      scope.events.emit('status', { type: 'caught-up', waiting, oldestMs, cause, threads })
      cause = undefined
    }
    if (waiting === 0 && cause === undefined) stop()
  }

  function stop(): void {
    clearInterval(timer)
    timer = undefined
  }

  scope.defer(stop)
  return {
    metrics() {
      // What waits when the stream ends is not verified any more.
      const waiting = scope.signal.aborted ? 0 : lines.waiting
      return { waiting, oldestMs: waiting === 0 ? 0 : ageOfOldest(), ...state.facts() }
    },
    begun() {
      if (timer !== undefined || scope.signal.aborted) return
      timer = setInterval(check, CHECK)
      timer.unref?.()
    },
  }
}

/** The backlog of a stream. */
export interface Backlog {
  /** What is shown of it. */
  metrics(): VerificationMetrics
  /** A report begins to wait. */
  begun(): void
}
