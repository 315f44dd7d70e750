import type { Facts, Finding, Status } from './check.js'
import type { Outcome } from './runner.js'

/** A finding, with the check that it is of. */
export interface Line extends Finding {
  readonly check: string
}

/** What the command prints as JSON. */
export interface DoctorReport {
  readonly exitCode: number
  readonly counts: Readonly<Record<Status, number>>
  readonly findings: readonly Omit<Line, 'exitCode'>[]
}

/** The findings of an outcome, without secrets. */
export function linesOf(
  { check, findings }: Outcome,
  hide: (text: string) => string,
): readonly Line[] {
  const hideIn = (facts: Facts): Facts =>
    Object.fromEntries(
      Object.entries(facts).map(([name, value]) => [
        name,
        typeof value === 'string' ? hide(value) : value,
      ]),
    )
  return findings.map(({ text, advice, facts, ...finding }) => ({
    check: check.name,
    exitCode: check.exitCode,
    ...finding,
    text: hide(text),
    ...(advice === undefined ? {} : { advice: hide(advice) }),
    ...(facts === undefined ? {} : { facts: hideIn(facts) }),
  }))
}

/** The report of a run: its exit code is that of the first failure. */
export function reportOf(lines: readonly Line[]): DoctorReport {
  const count = (status: Status): number => lines.filter(line => line.status === status).length
  const firstFailure = lines.find(({ status }) => status === 'failed')
  return {
    exitCode: firstFailure?.exitCode ?? 0,
    counts: {
      ok: count('ok'),
      warning: count('warning'),
      failed: count('failed'),
      'not checked': count('not checked'),
    },
    findings: lines.map(({ exitCode, ...line }) => line),
  }
}

/** A finding as a line, and what to do as a second one. */
export function formatLine(
  { status, check, text, advice }: Line,
  colour: (status: Status, text: string) => string,
): string {
  const line = `${colour(status, status.padEnd(11))}  ${check.padEnd(11)}  ${text}`
  return advice === undefined ? `${line}\n` : `${line}\n${' '.repeat(26)}→ ${advice}\n`
}

/** The last line. */
export function formatCounts({ counts }: DoctorReport): string {
  const { failed, warning, ok } = counts
  const rest = counts['not checked'] > 0 ? `, ${counts['not checked']} not checked` : ''
  return `${failed} failed, ${warning} ${warning === 1 ? 'warning' : 'warnings'}, ${ok} ok${rest}\n`
}
