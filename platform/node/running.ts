import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import host from 'node:process'
import { codeOf } from './files.js'

/** A process, in a form that other processes can store, compare and print. */
export interface ProcessFacts {
  readonly pid: number
  /** When it started, in a form to compare; absent where the platform does not say. */
  readonly start?: string
  /** The name of its machine or container, for people. */
  readonly host: string
  /** Where process ids mean the same: one boot of one machine, and one container. */
  readonly place: string
  /** When it started, for people. */
  readonly started: string
}

let own: ProcessFacts | undefined

/** This process. */
export function thisProcess(): ProcessFacts {
  if (own !== undefined) return own
  const start = startOf(host.pid)
  const started = new Date(Date.now() - host.uptime() * 1000).toISOString()
  const facts = { pid: host.pid, host: hostname(), place: placeOf(), started }
  own = start === undefined ? facts : { ...facts, start }
  return own
}

/** The facts that a process has stored; undefined where the value is something else. */
export function readProcess(value: unknown): ProcessFacts | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { pid, start, host, place, started } = value as Partial<ProcessFacts>
  if (!Number.isSafeInteger(pid) || (pid as number) < 1) return undefined
  if (start !== undefined && typeof start !== 'string') return undefined
  if (![host, place, started].every(text => typeof text === 'string' && text.length < 300))
    return undefined
  return value as ProcessFacts
}

/** Names a process in an error. */
export function describeProcess(facts: ProcessFacts | undefined): string {
  if (facts === undefined) return 'another process'
  const { pid, host, started } = facts
  const name = isThisProcess(facts) ? `this process ${pid}` : `process ${pid}`
  return `${name} on ${host} (started at ${started})`
}

export function isThisProcess({ pid, start, place }: ProcessFacts): boolean {
  const { pid: ownPid, start: ownStart, place: ownPlace } = thisProcess()
  return pid === ownPid && place === ownPlace && start === ownStart
}

/** Ids of processes mean something within one namespace of one boot; elsewhere than on Linux the machine has to do. */
function placeOf(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return hostname()
  }
}

/**
 * Whether a process runs, and is the one that started then: numbers of processes are given again. Without `start`, and where the
 * platform does not say when a process started, any process of the number is the one.
 */
export function isRunning(pid: number, start?: string): boolean {
  try {
    host.kill(pid, 0)
  } catch (thrown) {
    if (codeOf(thrown) === 'ESRCH') return false
  }
  const found = statOf(pid)
  if (found === undefined) return true
  // A zombie has ended, and only its parent has not asked how.
  return found.state !== 'Z' && (start === undefined || start === found.start)
}

/** When a process started, in a form to compare; undefined where the platform does not say. */
export function startOf(pid: number): string | undefined {
  return statOf(pid)?.start
}

/** Linux alone has it. */
function statOf(pid: number): { readonly state: string; readonly start: string } | undefined {
  try {
    // The name of the process is in parentheses, and may hold any character.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')
    const [state, start] = [fields?.[0], fields?.[19]]
    return state === undefined || start === undefined ? undefined : { state, start }
  } catch {
    return undefined
  }
}
