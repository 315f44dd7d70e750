import type { Log } from '../../core/log.js'
import type { Report } from '../../report/report.js'
import { toError } from './rejection.js'
import type { Settled, Verifier, VerifierState } from './verifier.js'
import type { VerifierOptions } from './verifier-options.js'

const noFacts = {
  curveLibrary: undefined,
  threads: undefined,
  f: undefined,
  reportsPerSecond: undefined,
} as const

/** Makes a verifier of options that have been checked. All that it needs is loaded with its first report. */
export function createLateVerifier(
  options: VerifierOptions,
  log: Log = {},
): Verifier & VerifierState {
  let verifier: (Verifier & VerifierState) | undefined
  let isEnded = false

  /** Each early check loads it: at the edge, nothing that a request has begun goes on after the request. */
  async function load(): Promise<Verifier> {
    const { createVerifier } = await import('./verifier.js')
    verifier ??= createVerifier(options, log)
    if (isEnded) verifier.end()
    return verifier
  }

  function checkLater(report: Report, settled: Settled): () => void {
    let isWanted = true
    let leave: (() => void) | undefined
    load().then(
      loaded => {
        if (isWanted) leave = loaded.check(report, settled)
      },
      cause => {
        const rule = 'what verifies it could not be loaded'
        const rejection = { reason: 'curve-library-unavailable', rule, cause } as const
        if (isWanted && !isEnded) settled(toError(rejection, report.feedID, report))
      },
    )
    return function cancel() {
      isWanted = false
      leave?.()
    }
  }

  return {
    check: (report, settled) =>
      verifier === undefined ? checkLater(report, settled) : verifier.check(report, settled),
    facts: () => verifier?.facts() ?? noFacts,
    awaitsSigners: report => verifier?.awaitsSigners(report) === true,
    end() {
      isEnded = true
      verifier?.end()
    },
  }
}
