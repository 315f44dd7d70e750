import { abortable, asError, withTimeout } from 'sluice/core'
import { given } from '../command.js'
import { exitCodeOf } from '../errors.js'
import type { Context } from './context.js'

/** The result of a check. A check that depends on a failed check is not run. */
export type Status = 'ok' | 'warning' | 'failed' | 'not checked'

/** A result of a check. */
export interface Finding {
  readonly status: Status
  /** The result in one line. */
  readonly text: string
  /** How the user can fix the problem. */
  readonly advice?: string
  /** The values in the text, for programs that read the JSON. */
  readonly facts?: Facts
  /** The exit code of the command if this is the first failure. @default that of the check */
  readonly exitCode?: number
}

/** Values by name. A value whose name ends in `Ms` is in milliseconds. */
export type Facts = Readonly<Record<string, string | number | boolean | undefined>>

/** What the runner needs of the tools of the checks. */
export interface Tools {
  /** Aborts when the user stops the command. */
  readonly signal: AbortSignal
}

/** A check of the doctor, or of another command whose checks have other tools. */
export interface Check<in Kit extends Tools = Context> {
  /** One word that names the check in the report. */
  readonly name: string
  /**
   * The names of checks that come earlier in the list. If one of them fails or could not be run,
   * this check is not run, because it would only repeat the failure.
   */
  readonly needs: readonly string[]
  /** The exit code of the command if this check is the first to fail. */
  readonly exitCode: number
  /** The timeout of the check, in milliseconds. @default 15000 */
  readonly deadline?: (context: Kit) => number
  /**
   * Returns a finding for each thing that it checks. If it throws, the check has failed. The signal
   * aborts at the deadline.
   */
  readonly run: (context: Kit, signal: AbortSignal) => Promise<readonly Finding[]>
  /** The finding for an error of `run`, or for a deadline. @default a failure */
  readonly explain?: (thrown: unknown) => Finding
}

/** The exit codes of failures, which docs/reference/command-line.md documents. */
export const exitCodes: {
  readonly machine: 1
  readonly argument: 2
  readonly access: 3
  readonly service: 4
} = { machine: 1, argument: 2, access: 3, service: 4 }

function finding(status: Status, text: string, advice?: string, facts?: Facts): Finding {
  return { status, text, ...given({ advice, facts }) }
}

/** A finding without a problem. */
export const ok = (text: string, facts?: Facts): Finding => finding('ok', text, undefined, facts)
/** A finding about something that works but needs attention. */
export const warning = (text: string, advice: string, facts?: Facts): Finding =>
  finding('warning', text, advice, facts)
/** A finding about something that does not work. */
export const failed = (text: string, advice: string, facts?: Facts): Finding =>
  finding('failed', text, advice, facts)
/** The finding of a check that has no result because of another problem. */
export const notChecked = (text: string): Finding => finding('not checked', text)

/** The findings of a check. */
export interface Outcome<out Run = Check> {
  readonly check: Run
  readonly findings: readonly Finding[]
  /**
   * The name of the check that keeps dependent checks from running: this check, or a check
   * that it needs.
   */
  readonly blocker: string | undefined
}

/** The default timeout of a check, in milliseconds. */
const DEADLINE = 15_000

/**
 * Runs the checks in parallel. Each check starts when the checks that it needs have ended. Calls
 * `show` with each outcome as soon as possible, in the order of the list.
 */
export async function runChecks<Kit extends Tools, Run extends Check<Kit>>(
  checks: readonly Run[],
  context: Kit,
  show: (outcome: Outcome<Run>) => void,
): Promise<readonly Outcome<Run>[]> {
  const running = new Map<string, Promise<Outcome<Run>>>()
  for (const check of checks) {
    const needed = check.needs.flatMap(name => running.get(name) ?? [])
    running.set(check.name, runAfter(needed, check, context))
  }
  const outcomes: Outcome<Run>[] = []
  for (const each of running.values()) {
    const outcome = await each
    show(outcome)
    outcomes.push(outcome)
  }
  return outcomes
}

async function runAfter<Kit extends Tools, Run extends Check<Kit>>(
  needed: readonly Promise<Outcome<Run>>[],
  check: Run,
  context: Kit,
): Promise<Outcome<Run>> {
  const before = await Promise.all(needed)
  const blocker = before.find(outcome => outcome.blocker !== undefined)?.blocker
  if (blocker !== undefined)
    return { check, findings: [notChecked(`because of ${blocker}`)], blocker }
  const findings = await runInTime(check, context)
  const isBlocking = findings.some(({ status }) => status === 'failed' || status === 'not checked')
  return { check, findings, blocker: isBlocking ? check.name : undefined }
}

async function runInTime<Kit extends Tools>(
  check: Check<Kit>,
  context: Kit,
): Promise<readonly Finding[]> {
  const deadline = check.deadline?.(context) ?? DEADLINE
  const late = (): Error => new Error(`it took more than ${deadline / 1000} s`)
  const run = (signal: AbortSignal): Promise<readonly Finding[]> =>
    abortable(check.run(context, signal), signal)
  try {
    return await withTimeout(deadline, late, run, context.signal)
  } catch (thrown) {
    return [(check.explain ?? failureOf)(thrown)]
  }
}

/**
 * Makes the finding for an error. If the error has its own exit code, the finding gets that code.
 * Otherwise the exit code of the check applies.
 */
function failureOf(thrown: unknown): Finding {
  const advice = 'try again; if it lasts, look at what is named here'
  const exitCode = exitCodeOf(thrown)
  return { ...failed(asError(thrown).message, advice), ...(exitCode === 1 ? {} : { exitCode }) }
}
