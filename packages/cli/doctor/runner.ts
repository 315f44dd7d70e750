import { asError, createLifetime } from 'sluice/core'
import { exitCodeOf } from '../errors.js'
import { type Check, type Finding, failed, notChecked } from './check.js'
import type { Context } from './context.js'

/** What a check has found. */
export interface Outcome {
  readonly check: Check
  readonly findings: readonly Finding[]
  /** Milliseconds that it took. */
  readonly took: number
  /** The check whose failure kept the next ones from running: this one, or one before it; undefined for none. */
  readonly obstacle: string | undefined
}

const DEADLINE = 15_000

/**
 * Runs the checks side by side, each as soon as those that it needs are over. Calls `show` with the outcomes in the order of the
 * list, each as soon as those before it are there.
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
  const obstacle = before.find(outcome => outcome.obstacle !== undefined)?.obstacle
  if (obstacle !== undefined)
    return { check, findings: [notChecked(`because of ${obstacle}`)], took: 0, obstacle }
  const startedAt = performance.now()
  const findings = await runInTime(check, context)
  const isObstacle = findings.some(({ status }) => status === 'failed' || status === 'not checked')
  return {
    check,
    findings,
    took: performance.now() - startedAt,
    obstacle: isObstacle ? check.name : undefined,
  }
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

/** An error that tells its class of exit codes has that one, others that of their check. */
function failureOf(thrown: unknown): Finding {
  const advice = 'try again; if it lasts, look at what is named here'
  const exitCode = exitCodeOf(thrown)
  return { ...failed(asError(thrown).message, advice), ...(exitCode === 1 ? {} : { exitCode }) }
}
