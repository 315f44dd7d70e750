import type { Plugin, Sink } from '../../client/contract/plugin.js'
import type { RequestScope, StreamScope } from '../../client/contract/scope.js'
import { ValidationError } from '../../core/errors.js'
import { checkFunction, checkNumber, checkOptions, type OptionNames } from '../../core/options.js'
import type { ClientScope, ServiceKey } from '../../core/scope.js'
import { reportVerifier } from '../../report/verifier.js'
import { createLateVerifier } from './late-verifier.js'
import { verifyAnswer } from './request-stage.js'
import { checkMode, createSecureRandom, type VerifyMode } from './sampling.js'
import { type StreamStageParts, verifyStream } from './stream-stage.js'
import { createVerdicts } from './verdicts.js'
import { checkVerifierOptions, type VerifierOptions, verifierNames } from './verifier-options.js'

export { verifyReport } from './lazy-verify-report.js'
export type { VerifyMode } from './sampling.js'
export type { SignerSet, Signers, UnverifiedReport } from './signers.js'
export type { Verification, VerifyReportOptions } from './verify-report.js'

/** Options of `verify`. */
export interface VerifyOptions extends VerifierOptions {
  /**
   * Which reports are verified before they are delivered: `all`, a random one of n (`{ sample: n }`), or none until you call
   * `report.verify` (`on-demand`). @default 'all'
   */
  readonly mode?: VerifyMode
  /** Reports of a stream that wait to be verified before its connections are paused. @default 1024 */
  readonly maxPending?: number
  /** Draws the sample: returns unpredictable numbers from 0 up to 1. @default the platform's crypto */
  readonly random?: () => number
}

const names: OptionNames<VerifyOptions> = {
  ...verifierNames,
  mode: true,
  maxPending: true,
  random: true,
}

/** The facts of the stack that a stream's stage uses. */
const stackFacts: ServiceKey<Pick<StreamStageParts, 'isDeduplicated' | 'state' | 'backlogs'>> = {
  name: 'the place of verify',
}

/**
 * Verifies the signatures of reports before you get them. A rejected report is not delivered: on a stream its
 * ReportVerificationError is an `error` event, and `continuity` fetches the report again; a request rejects with the error.
 *
 * It stands below `continuity` and `dedup`, so that neither sees a rejected report.
 */
export function verify(given: VerifyOptions): Plugin<never> {
  const {
    mode,
    maxPending: most,
    random: source,
    ...options
  } = checkOptions('verify', given, names)
  const share = checkMode(mode ?? 'all')
  const maxPending = checkNumber('maxPending', most ?? 1024, { min: 1, whole: true })
  if (source !== undefined) checkFunction('random', source)
  const random = source ?? createSecureRandom()
  const isChosen = share === 1 ? () => true : () => random() * share < 1
  checkVerifierOptions(options)

  function setup(scope: ClientScope): void {
    const isDeduplicated = checkPlace(scope)
    const verifier = createLateVerifier(options, scope.log)
    const verdicts = createVerdicts(verifier)
    const backlogs: StreamStageParts['backlogs'] = new WeakMap()
    const metricsOf = (stream: object) => backlogs.get(stream)?.metrics()
    scope.provide(reportVerifier, { ...verdicts, metricsOf })
    scope.provide(stackFacts, { isDeduplicated, state: verifier, backlogs })
    scope.defer(verdicts.end)
  }

  function verifyReports(next: Sink, scope: StreamScope | RequestScope): Sink {
    const verifier = scope.client.find(reportVerifier)
    const facts = scope.client.find(stackFacts)
    if (verifier === undefined || facts === undefined)
      throw new ValidationError('verify: setup has not run')
    return scope.kind === 'request'
      ? verifyAnswer(next, scope, verifier, isChosen)
      : verifyStream(next, scope, { verifier, isChosen, maxPending, ...facts })
  }

  const isOnDemand = share === Number.POSITIVE_INFINITY
  return { name: 'verify', setup, ...(isOnDemand ? {} : { report: verifyReports }) }
}

/** Checks the place in the stack; true where `dedup` is above. */
function checkPlace({ stack }: ClientScope): boolean {
  const names = stack.map(({ name }) => name)
  const place = names.indexOf('verify')
  for (const above of ['continuity', 'dedup'])
    if (names.indexOf(above) > place)
      throw new ValidationError(
        `verify must stand below ${above}, which takes each report that it has seen for delivered`,
      )
  return names.includes('dedup')
}
