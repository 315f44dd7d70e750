import { asError, createLifetime } from 'sluice/core'
import { given } from '../command.js'
import { exitCodeOf } from '../errors.js'
import type { Context } from './context.js'

/** The result of a check. A check that depends on a failed one is not run. */
export type Status = 'ok' | 'warning' | 'failed' | 'not checked'

/** A result of a check. */
export interface Finding {
  readonly status: Status
  /** The result in one line. */
  readonly text: string
  /** How to mend it. */
  readonly advice?: string
  /** The figures of the text, for programs. */
  readonly facts?: Facts
  /** The exit code of the command if this is the first failure. @default that of the check */
  readonly exitCode?: number
}

/** Figures by their name, in milliseconds where the name says so. */
export type Facts = Readonly<Record<string, string | number | boolean | undefined>>

/** A check of the doctor: `doctor.ts` lists them. */
export interface Check {
  /** One word, which the report shows. */
  readonly name: string
  /** Checks further up the list. If one of them fails, this one is not run: it would only repeat the failure. */
  readonly needs: readonly string[]
  /** The exit code of the command if this check is the first to fail. */
  readonly exitCode: number
  /** The most milliseconds that it takes. @default 15000 */
  readonly deadline?: (context: Context) => number
  /** Returns a finding per thing. An error is a failure, too. The signal aborts at the deadline. */
  run(context: Context, signal: AbortSignal): Promise<readonly Finding[]>
}

/** The exit codes of failures, as docs/command-line.md has them. */
export const exitCodes: { readonly machine: 1; readonly access: 3; readonly service: 4 } = {
  machine: 1,
  access: 3,
  service: 4,
}

function finding(status: Status, text: string, advice?: string, facts?: Facts): Finding {
  return { status, text, ...given({ advice, facts }) }
}

/** All is well. */
export const ok = (text: string, facts?: Facts): Finding => finding('ok', text, undefined, facts)
/** It works, and someone should look at it. */
export const warning = (text: string, advice: string, facts?: Facts): Finding =>
  finding('warning', text, advice, facts)
/** It does not work. */
export const failed = (text: string, advice: string, facts?: Facts): Finding =>
  finding('failed', text, advice, facts)
/** It could not be found out, because of something else. */
export const notChecked = (text: string): Finding => finding('not checked', text)

/** The findings of a check. */
export interface Outcome {
  readonly check: Check
  readonly findings: readonly Finding[]
  /** The failed check that keeps dependent checks from running: this one, or one that it needs. */
  readonly blocker: string | undefined
}

/** Milliseconds that a check may take. */
const DEADLINE = 15_000

/**
 * Runs the checks in parallel, each as soon as the checks that it needs are over. Calls `show` with the outcomes in the order of
 * the list, as soon as possible.
 */
export async function runChecks(
  checks: readonly Check[],
  context: Context,
  show: (outcome: Outcome) => void,
): Promise<readonly Outcome[]> {
  const running = new Map<string, Promise<Outcome>>()
  for (const check of checks) {
    const needed = check.needs.flatMap(name => running.get(name) ?? [])
    running.set(check.name, runAfter(needed, check, context))
  }
  const outcomes: Outcome[] = []
  for (const each of running.values()) {
    const outcome = await each
    show(outcome)
    outcomes.push(outcome)
  }
  return outcomes
}

async function runAfter(
  needed: readonly Promise<Outcome>[],
  check: Check,
  context: Context,
): Promise<Outcome> {
  const before = await Promise.all(needed)
  const blocker = before.find(outcome => outcome.blocker !== undefined)?.blocker
  if (blocker !== undefined)
    return { check, findings: [notChecked(`because of ${blocker}`)], blocker }
  const findings = await runInTime(check, context)
  const isBlocking = findings.some(({ status }) => status === 'failed' || status === 'not checked')
  return { check, findings, blocker: isBlocking ? check.name : undefined }
}

async function runInTime(check: Check, context: Context): Promise<readonly Finding[]> {
  const life = createLifetime(context.signal)
  const deadline = check.deadline?.(context) ?? DEADLINE
  const late = new Error(`it took more than ${deadline / 1000} s`)
  const timer = setTimeout(() => life.end(late), deadline)
  const isOver = new Promise<never>((_resolve, reject) =>
    life.defer(() => reject(life.signal.reason)),
  )
  try {
    return await Promise.race([check.run(context, life.signal), isOver])
  } catch (thrown) {
    return [failureOf(thrown)]
  } finally {
    clearTimeout(timer)
    isOver.catch(() => undefined)
    life.end()
  }
}

/** An error with an exit code of its own keeps it. Other errors get that of their check. */
function failureOf(thrown: unknown): Finding {
  const advice = 'try again; if it lasts, look at what is named here'
  const exitCode = exitCodeOf(thrown)
  return { ...failed(asError(thrown).message, advice), ...(exitCode === 1 ? {} : { exitCode }) }
}
