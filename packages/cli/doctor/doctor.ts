import type { Status } from './check.js'
import { checksFor } from './checks.js'
import { createContext, type Subject } from './context.js'
import { createHider } from './hide-secrets.js'
import { formatCounts, formatLine, type Line, linesOf, reportOf } from './report.js'
import { runChecks } from './runner.js'

/** Where findings are written, and how. */
export interface DoctorOutput {
  write(text: string): void
  readonly json: boolean
  /** Colours the status of a finding. */
  colour(status: Status, text: string): string
}

const STOPPED = 1

/** Runs the checks and writes what they find, each line as soon as it is known. Returns the exit code. */
export async function doctor(
  subject: Subject,
  signal: AbortSignal,
  { write, json, colour }: DoctorOutput,
): Promise<number> {
  const context = createContext(subject, signal)
  const hide = createHider(subject)
  const lines: Line[] = []
  try {
    await runChecks(checksFor(subject), context, outcome => {
      if (signal.aborted) return
      const found = linesOf(outcome, hide)
      lines.push(...found)
      if (!json) for (const line of found) write(formatLine(line, colour))
    })
  } finally {
    await context.close()
  }
  // What was not finished is not known to be well.
  if (signal.aborted) return STOPPED
  const report = reportOf(lines)
  write(json ? `${JSON.stringify(report)}\n` : formatCounts(report))
  return report.exitCode
}
