import type { Plugin, Sink } from '../../client/contract/plugin.js'
import type { RequestScope, StreamScope } from '../../client/contract/scope.js'
import { ValidationError } from '../../core/errors.js'
import type { ClientScope, ServiceKey } from '../../core/scope.js'
import { markLatest, type Report } from '../../report/report.js'
import { reportVerifier } from '../../report/verifier.js'
import { readVerifyOptions, type VerifyOptions } from './options.js'
import { StreamStage } from './stream-stage.js'
import { Verifier } from './verifier.js'

export { verifyReport } from './lazy-verify-report.js'
export type { SignerSet, Signers, UnverifiedReport, VerifyMode, VerifyOptions } from './options.js'
export type { Verification, VerifyReportOptions } from './verify-report.js'

/** The verifier of a client, and whether a `dedup` above drops duplicates. */
interface Service {
  readonly verifier: Verifier
  readonly isDeduplicated: boolean
}

const service: ServiceKey<Service> = { name: 'the service of verify' }

/**
 * Verifies the signatures of reports before you get them. A rejected report is not delivered. A
 * stream emits its ReportVerificationError as an `error` event, and `continuity` fetches the report
 * again. A request rejects with the error.
 *
 * The plugin must stand below `continuity` and `dedup`, so that neither sees a rejected report.
 */
export function verify(given: VerifyOptions): Plugin<never> {
  const options = readVerifyOptions(given)
  const { mode, maxPending, random = createSecureRandom() } = options
  const isChosen = typeof mode === 'object' ? () => random() * mode.sample < 1 : () => true

  function setup(scope: ClientScope): void {
    scope.place({ provides: ['verified'] })
    // Its place is below: `dedup` was set up before.
    const isDeduplicated = scope.has('unique')
    const verifier = new Verifier(options, scope.log)
    scope.provide(reportVerifier, verifier)
    scope.provide(service, { verifier, isDeduplicated })
    scope.defer(() => verifier.end())
  }

  function verifyReports(next: Sink, scope: StreamScope | RequestScope): Sink {
    const own = scope.client.find(service)
    if (own === undefined) throw new ValidationError('verify: setup has not run')
    own.verifier.learn(scope.client)
    if (mode === 'on-demand') return noteLatest(next, scope)
    if (scope.kind === 'request')
      return noteLatest(verifyAnswer(next, scope, own.verifier, isChosen), scope)
    const stage = new StreamStage(next, scope, { ...own, isChosen, maxPending })
    own.verifier.stages.set(scope, stage)
    return report => stage.take(report)
  }

  return { name: 'verify', setup, report: verifyReports }
}

/** How many random numbers are drawn at a time: a call of the platform for each would cost more. */
const DRAWS = 256

/**
 * Creates a source of random numbers from 0 to below 1. Earlier numbers do not predict later
 * numbers.
 */
function createSecureRandom(): () => number {
  const draws = new Uint32Array(DRAWS)
  let left = 0
  return function draw() {
    if (left === 0) {
      crypto.getRandomValues(draws)
      left = DRAWS
    }
    return (draws[--left] as number) / 2 ** 32
  }
}

/** Notes which reports of a request claim to be of the present. */
function noteLatest(next: Sink, scope: StreamScope | RequestScope): Sink {
  if (scope.kind === 'stream' || scope.operation !== 'getLatestReport') return next
  return function note(report) {
    markLatest(report)
    next(report)
  }
}

/**
 * Verifies the reports of an answer before they are passed on. If a report is rejected, the request
 * fails.
 */
function verifyAnswer(
  next: Sink,
  scope: RequestScope,
  verifier: Verifier,
  isChosen: () => boolean,
): Sink {
  let received: Report[] = []

  async function verifyAll(): Promise<void> {
    // Reports of the same tick are passed on together.
    await undefined
    const reports = received
    received = []
    await verifier.checkAll(reports.filter(isChosen), scope.signal)
    for (const report of reports) next(report)
  }

  return function takeUnverified(report) {
    if (received.push(report) === 1) scope.waitUntil(verifyAll(), report)
  }
}
