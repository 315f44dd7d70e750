import { given } from '../command.js'
import {
  type Check,
  type Facts,
  type Finding,
  type Outcome,
  runChecks,
  type Status,
} from './check.js'
import { clock, credentials, feeds, latency } from './checks/access.js'
import { log } from './checks/log.js'
import { context, node, packages } from './checks/machine.js'
import { connection, dns, proxy } from './checks/network.js'
import { origins } from './checks/origins.js'
import { retirement } from './checks/retirement.js'
import { tls } from './checks/tls.js'
import { Context, type Subject } from './context.js'

const machine: readonly Check[] = [node, packages]
/** Each check comes after the checks that it needs. */
const service: readonly Check[] = [
  proxy,
  dns,
  connection,
  tls,
  clock,
  credentials,
  feeds,
  retirement,
  latency,
  origins,
]

/**
 * The checks to run, in the order of the report. If a log is given without credentials, the checks
 * of the service are left out. Without a context, that check is left out.
 */
export function checksFor(subject: Subject): readonly Check[] {
  const { log: place, credentials } = subject
  const first = subject.context === undefined ? machine : [...machine, context]
  if (place === undefined) return [...first, ...service]
  return credentials === undefined ? [...first, log] : [...first, ...service, log]
}

/** The destination and the form of the doctor's output. */
export interface DoctorOutput {
  write(text: string): void
  readonly json: boolean
  /** Colours the status of a finding. */
  colour(status: Status, text: string): string
}

/** The exit code if the user stops the doctor, because an unfinished check may have failed. */
const STOPPED = 1

/**
 * Runs the checks, writes the findings, and returns the exit code. It writes text as soon as a
 * finding is known, but writes JSON at the end.
 */
export async function doctor(
  subject: Subject,
  signal: AbortSignal,
  { write, json, colour }: DoctorOutput,
): Promise<number> {
  const context = new Context(subject, signal)
  const hide = createHider(subject)
  const lines: Line[] = []
  try {
    await runChecks(checksFor(subject), context, outcome => {
      if (signal.aborted) return
      const found = describeFindings(outcome, hide)
      lines.push(...found)
      if (!json) for (const line of found) write(formatLine(line, colour))
    })
  } finally {
    await context.close()
  }
  if (signal.aborted) return STOPPED
  const report = reportOf(lines)
  write(json ? `${JSON.stringify(report)}\n` : formatCounts(report))
  return report.exitCode
}

/** A finding, with the name of its check. */
export interface Line extends Finding {
  readonly check: string
}

/** The JSON that the command prints. */
export interface DoctorReport {
  readonly exitCode: number
  readonly counts: Readonly<Record<Status, number>>
  readonly findings: readonly Omit<Line, 'exitCode'>[]
}

/** The findings of an outcome, without secrets. */
export function describeFindings(
  { check, findings }: Outcome,
  hide: (text: string) => string,
): readonly Line[] {
  const hideIn = (facts: Facts): Facts => {
    const hidden = Object.entries(facts).map(([name, value]) => [
      name,
      typeof value === 'string' ? hide(value) : value,
    ])
    return Object.fromEntries(hidden)
  }
  return findings.map(({ text, advice, facts, ...finding }) => ({
    check: check.name,
    exitCode: check.exitCode,
    ...finding,
    text: hide(text),
    ...given({ advice: advice && hide(advice), facts: facts && hideIn(facts) }),
  }))
}

/** Makes the report of a run. Its exit code is the exit code of the first failure. */
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

/** Formats a finding as one line, and its advice as a second line. */
export function formatLine(
  { status, check, text, advice }: Line,
  colour: (status: Status, text: string) => string,
): string {
  const line = `${colour(status, status.padEnd(11))}  ${check.padEnd(11)}  ${text}`
  return advice === undefined ? `${line}\n` : `${line}\n${' '.repeat(26)}→ ${advice}\n`
}

/** Formats the last line, which counts the findings by status. */
export function formatCounts({ counts }: DoctorReport): string {
  const { failed, warning, ok } = counts
  const rest = counts['not checked'] > 0 ? `, ${counts['not checked']} not checked` : ''
  return `${failed} failed, ${warning} ${warning === 1 ? 'warning' : 'warnings'}, ${ok} ok${rest}\n`
}

/**
 * The length of the shortest secret that is hidden. Shorter secrets are in many texts by chance.
 */
const LEAST = 4
const HIDDEN = '…'

/**
 * Makes a function that removes secrets, user names and passwords of URLs, and control characters
 * from a text.
 */
export function createHider({
  credentials,
  network,
  env,
}: Pick<Subject, 'credentials' | 'network' | 'env'>): (text: string) => string {
  const variables = Object.entries(env).filter(([name]) => /_proxy$/i.test(name))
  const secrets = [
    credentials?.apiKey,
    credentials?.userSecret,
    network.tls?.passphrase,
    ...variables.flatMap(([, url]) => partsOf(url ?? '')),
  ]
  const hidden = secrets
    .filter(secret => secret !== undefined)
    .filter(secret => secret.length >= LEAST)
    .sort((one, other) => other.length - one.length)
  return function hide(text) {
    const clean = text.replace(/\/\/[^/\s@]*@/g, `//${HIDDEN}@`).replace(/[\p{Cc}]+/gu, ' ')
    return hidden.reduce((left, secret) => left.replaceAll(secret, HIDDEN), clean)
  }
}

/** The password in a URL, as written and decoded; nothing if the text has no password. */
function partsOf(url: string): readonly string[] {
  const [, password] = /^[^@]*:([^:@]*)@/.exec(url) ?? []
  if (password === undefined) return []
  try {
    return [password, decodeURIComponent(password)]
  } catch {
    return [password]
  }
}
