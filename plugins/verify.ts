import type { Plugin } from '../client/plugin.js'
import { ValidationError } from '../core/errors.js'
import { checkFunction, checkNumber, checkOptions } from '../core/options.js'
import type { ClientScope } from '../core/scope.js'
import { verifyAnswer } from './verify/request-stage.js'
import { checkMode, createSecureRandom, type VerifyMode } from './verify/sampling.js'
import { verifyStream } from './verify/stream-stage.js'
import { createVerdicts } from './verify/verdicts.js'
import { createVerifier, type VerifierOptions } from './verify/verifier.js'

export type { VerifyMode } from './verify/sampling.js'
export type { SignerSet, Signers, UnverifiedReport } from './verify/signers.js'
export {
  type Verification,
  type VerifyReportOptions,
  verifyReport,
} from './verify/verify-report.js'

const names = [
  'signers',
  'mode',
  'count',
  'checkExpiry',
  'engine',
  'workers',
  'now',
  'maxPending',
  'random',
] as const

/** Options of `verify`. */
export interface VerifyOptions extends VerifierOptions {
  /**
   * Which reports are verified on their way: `all`, a random one of n (`{ sample: n }`), or none until `report.verify` asks
   * (`on-demand`). @default 'all'
   */
  readonly mode?: VerifyMode
  /** Reports of a stream that wait to be verified before its connections are held back. @default 1024 */
  readonly maxPending?: number
  /** Draws the sample: from 0 up to 1, and not to be foretold. @default of the platform's crypto */
  readonly random?: () => number
}

/**
 * Verifies the signatures of reports, here and now, before you get them. What is refused is not delivered: on a stream its
 * ReportVerificationError is an `error` event, and what it displaced is fetched by `continuity`; a request rejects with it.
 *
 * It stands directly above `dedup`, so that copies are verified once, and below `continuity`.
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
  // So that what is wrong with the options is said here.
  createVerifier(options).end()

  const plugin: Plugin<never> = {
    name: 'verify',
    setup: checkPlace,
    verifier({ defer }) {
      const verdicts = createVerdicts(createVerifier(options))
      defer(verdicts.end)
      return verdicts
    },
  }
  if (share === Number.POSITIVE_INFINITY) return plugin
  return {
    ...plugin,
    report(next, scope) {
      const { verifier } = scope
      if (verifier === undefined) return next
      return scope.kind === 'request'
        ? verifyAnswer(next, scope, verifier, isChosen)
        : verifyStream(next, scope, { verifier, isChosen, maxPending })
    },
  }
}

/** What continuity has seen, it takes for delivered; and dedup must hear what comes of each report it has passed on. */
function checkPlace({ stack }: ClientScope): void {
  const names = stack.map(({ name }) => name)
  const place = names.indexOf('verify')
  if (names.indexOf('continuity') > place) {
    throw new ValidationError(
      'verify must stand below continuity, directly above dedup: what is refused must be missing above',
    )
  }
  const between = stack.slice(place + 1, Math.max(place + 1, names.indexOf('dedup')))
  const other = between.find(({ hooks }) => hooks.includes('report'))
  if (other !== undefined)
    throw new ValidationError(`verify must stand directly above dedup, not above ${other.name}`)
}
