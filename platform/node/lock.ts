import { readFileSync, readlinkSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import host from 'node:process'
import { codeOf } from './files.js'
import { randomUUID } from 'node:crypto'
import { sleep } from '../../core/async.js'

/** A process, in a form that other processes can store, compare and print. */
interface ProcessFacts {
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

function isThisProcess({ pid, start, place }: ProcessFacts): boolean {
  const { pid: ownPid, start: ownStart, place: ownPlace } = thisProcess()
  return pid === ownPid && place === ownPlace && start === ownStart
}

/**
 * Ids of processes mean something within one namespace of one boot; elsewhere than on Linux the
 * machine has to do.
 */
function placeOf(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`
  } catch {
    return hostname()
  }
}

/**
 * Whether a process runs, and is the one that started then: numbers of processes are given again.
 * Without `start`, and where the platform does not say when a process started, any process of the
 * number is the one.
 */
function isRunning(pid: number, start?: string): boolean {
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

/** A lock file that this process has. */
export interface Lock {
  /**
   * Names the process that has the lock now; undefined while it is this one. A lock file that was
   * deleted is made again.
   */
  other(): string | undefined
  /** Gives the lock up. */
  release(): void
}

/** How to wait for a lock. */
export interface LockOptions {
  /** Milliseconds to wait for an owner that runs. @default 0 */
  readonly patience?: number
  /** Aborting it ends the wait. */
  readonly signal?: AbortSignal | undefined
  /** Called once, with the owner's name, where the wait takes longer than two seconds. */
  readonly waiting?: ((owner: string) => void) | undefined
}

/** Milliseconds between two signs of life that the owner of a lock gives. */
const BEAT = 2000
/** Milliseconds without a sign of life after which an owner that can't be looked at has ended. */
const STALE = 10_000
/** Milliseconds between two looks at a lock of another owner. */
const POLL = 100
/**
 * Milliseconds after which a wait is reported, and for which this process is waited for: its other
 * stream may be closing.
 */
const NOTICE = 2000

type State = 'free' | 'ended' | 'running' | 'unknown'
/** What a look at a lock file finds. */
interface Look {
  readonly state: State
  readonly owner: ProcessFacts | undefined
}

/**
 * Takes a lock file for this process, or resolves with words that name its owner. The lock of a
 * process that has ended is taken over: at once where its id can be looked up, otherwise (another
 * machine, another container) where the file shows no sign of life for ten seconds.
 */
export async function takeLock(path: string, options: LockOptions = {}): Promise<Lock | string> {
  const { patience = 0, signal = new AbortController().signal, waiting } = options
  const text = JSON.stringify({ ...thisProcess(), lock: randomUUID() })
  const look = createLook()
  const begin = performance.now()
  let isNotified = false
  while (!take(path, text, look)) {
    const { state, owner } = look(path)
    const waited = performance.now() - begin
    const limit =
      owner !== undefined && isThisProcess(owner) ? Math.min(patience, NOTICE) : patience
    const isOver = waited >= (state === 'running' ? limit : Math.max(limit, 2 * STALE))
    if (isOver) return describeProcess(owner)
    if (waited >= NOTICE && !isNotified) {
      isNotified = true
      waiting?.(describeProcess(owner))
    }
    await sleep(POLL, signal)
  }
  return keep(path, text)
}

/** Names the process that has a lock and certainly runs. */
export function ownerOf(path: string): string | undefined {
  const { state, owner } = createLook()(path)
  return state === 'running' ? describeProcess(owner) : undefined
}

function take(path: string, text: string, look: (path: string) => Look): boolean {
  if (create(path, text)) return true
  if (look(path).state !== 'ended') return false
  // A lock is removed under a second one, or two that find the same dead process would remove each
  // other's.
  const second = `${path}.next`
  if (!take(second, text, look)) return false
  try {
    if (look(path).state !== 'ended') return false
    rmSync(path, { force: true })
    return create(path, text)
  } finally {
    rmSync(second, { force: true })
  }
}

function create(path: string, text: string): boolean {
  try {
    writeFileSync(path, text, { flag: 'wx', mode: 0o600 })
    return true
  } catch (thrown) {
    if (codeOf(thrown) === 'EEXIST') return false
    throw thrown
  }
}

/** Gives signs of life for a lock until it is released. */
function keep(path: string, text: string): Lock {
  const timer = setInterval(beat, BEAT)
  timer.unref?.()

  function beat(): void {
    try {
      if (readFileSync(path, 'utf8') !== text) return
      const now = new Date()
      utimesSync(path, now, now)
    } catch {
      // It was deleted, or can't be reached now.
    }
  }

  function other(): string | undefined {
    for (;;) {
      const found = read(path)
      if (found === undefined ? create(path, text) : found.text === text) return undefined
      if (found !== undefined) return describeProcess(found.owner)
    }
  }

  return {
    other,
    release() {
      clearInterval(timer)
      if (read(path)?.text === text) rmSync(path, { force: true })
    },
  }
}

/** Looks at lock files, and remembers since when each has shown no sign of life. */
function createLook(): (path: string) => Look {
  const watched = new Map<
    string,
    { readonly sign: string; readonly since: number; beats: number }
  >()

  return function look(path) {
    const found = read(path)
    if (found === undefined) return { state: 'free', owner: undefined }
    const { owner, sign } = found
    if (owner !== undefined && owner.place === thisProcess().place) {
      if (!isRunning(owner.pid, owner.start)) return { state: 'ended', owner }
      if (owner.start !== undefined && startOf(owner.pid) !== undefined)
        return { state: 'running', owner }
    }
    const now = performance.now()
    const before = watched.get(path)
    if (before?.sign !== sign) {
      watched.set(path, { sign, since: now, beats: (before?.beats ?? -1) + 1 })
      return { state: before === undefined ? 'unknown' : 'running', owner }
    }
    if (now - before.since > STALE) return { state: 'ended', owner }
    return { state: before.beats > 0 ? 'running' : 'unknown', owner }
  }
}

/**
 * A lock file: its text, what changes with each sign of life, and its owner where the text says it.
 */
function read(path: string) {
  let text: string
  let time: number
  try {
    text = readFileSync(path, 'utf8')
    time = statSync(path).mtimeMs
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return undefined
    throw thrown
  }
  return { text, sign: `${time} ${text}`, owner: ownerIn(text) }
}

function ownerIn(text: string): ProcessFacts | undefined {
  try {
    return readProcess(JSON.parse(text))
  } catch {
    return undefined
  }
}
