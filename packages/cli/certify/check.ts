import { asError } from 'sluice/core'
import { networkReason } from 'sluice/internal'
import { type Check, type Finding, notChecked } from '../doctor/check.js'
import { exitCodeOf } from '../errors.js'
import { StopReason } from '../io.js'
import type { CertifyContext } from './context.js'

/** A check that compares the service with a documented rule. `certify.ts` lists all of them. */
export interface CertifyCheck extends Check<CertifyContext> {
  readonly title: string
  /** The rule, in our words. */
  readonly documented: string
  /** The name of the page or program that has the rule. */
  readonly source: string
  /** The most requests and upgrades that it sends. */
  readonly requests: number
}

/** The exit code if something deviates from its documentation. */
export const DEVIATES = 6

/** What a definition gives; the rest is the same for all checks. */
type Given = Omit<CertifyCheck, 'exitCode' | 'needs' | 'requests' | 'explain'> &
  Partial<Pick<CertifyCheck, 'needs' | 'requests'>>

/** Defines a check. It needs access to the service, unless `needs` says otherwise. */
export function defineCheck(spec: Given): CertifyCheck {
  return {
    exitCode: DEVIATES,
    needs: ['access'],
    requests: 0,
    // The checks share one queue of requests, so each may take as long as all.
    deadline: context => context.longest,
    explain,
    ...spec,
  }
}

/** The exit code of a check that got no answer from the service. */
export const UNREACHABLE = 4

/** A check that got no answer has tested nothing, so an error is no deviation. */
function explain(thrown: unknown): Finding {
  if (isStop(thrown)) return notChecked('stopped before it was done')
  const exitCode = exitCodeOf(thrown)
  const finding = notChecked(networkReason(thrown))
  return { ...finding, exitCode: exitCode === 1 ? UNREACHABLE : exitCode }
}

/** True for an error that says only that the user has stopped the command. */
export const isStop = (thrown: unknown): boolean =>
  thrown instanceof StopReason || asError(thrown).name === 'AbortError'
