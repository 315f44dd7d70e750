import { randomUUID } from 'node:crypto'
import {
  closeSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  rmSync,
  type Stats,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { hostname } from 'node:os'
import host from 'node:process'
import { sleep } from '../../core/async.js'
import { ValidationError } from '../../core/errors.js'
import { codeOf } from './files.js'

/** Identifies a process. Other processes can store, compare and print these facts. */
interface ProcessFacts {
  readonly pid: number
  /** When the process started, in a form to compare; absent if the platform does not say. */
  readonly start?: string
  /** The name of the machine or container of the process, for messages. */
  readonly host: string
  /** The scope in which a process id is unique: one boot of one machine, and one container. */
  readonly place: string
  /** When the process started, for messages. */
  readonly started: string
}

let own: ProcessFacts | undefined

/** The facts of this process. */
export function thisProcess(): ProcessFacts {
  if (own !== undefined) return own
  const start = startOf(host.pid)
  const started = new Date(Date.now() - host.uptime() * 1000).toISOString()
  const facts = { pid: host.pid, host: hostname(), place: placeOf(), started }
  own = start === undefined ? facts : { ...facts, start }
  return own
}

/** Reads facts that a process has stored. Undefined if the value is not such facts. */
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
 * A process id is unique only within one PID namespace of one boot. On systems other than Linux the
 * host name is used instead.
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
 * Whether the process runs, and is the one that started at `start`: process ids are reused. Without
 * `start`, or if the platform does not say when a process started, any process with this id counts.
 */
function isRunning(pid: number, start?: string): boolean {
  try {
    host.kill(pid, 0)
  } catch (thrown) {
    if (codeOf(thrown) === 'ESRCH') return false
  }
  const found = statOf(pid)
  if (found === undefined) return true
  // A zombie has ended; its parent has not read its exit status yet.
  return found.state !== 'Z' && (start === undefined || start === found.start)
}

/** When a process started, in a form to compare; undefined if the platform does not say. */
export function startOf(pid: number): string | undefined {
  return statOf(pid)?.start
}

/** Reads `/proc/PID/stat`, which only Linux has. */
function statOf(pid: number): { readonly state: string; readonly start: string } | undefined {
  try {
    // The name of the process is in parentheses, and may contain any character. So the fields after
    // the last parenthesis are read.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')
    const [state, start] = [fields?.[0], fields?.[19]]
    return state === undefined || start === undefined ? undefined : { state, start }
  } catch {
    return undefined
  }
}

/** A lock that this process holds. */
export interface Lock {
  /**
   * Names the process that holds the lock now; undefined if this process holds it. If the lock file
   * was deleted, creates it again. Throws if something other than a file is in its place.
   */
  other(): string | undefined
  /** Releases the lock. */
  release(): void
}

/** How to wait for a lock. */
export interface LockOptions {
  /** Milliseconds to wait if the owner of the lock runs. @default 0 */
  readonly patience?: number
  /** Aborting this signal ends the wait. */
  readonly signal?: AbortSignal | undefined
  /** Called once with the owner's name, if the wait takes longer than two seconds. */
  readonly waiting?: ((owner: string) => void) | undefined
}

/**
 * The interval at which the owner of a lock updates the file's time, in milliseconds: its sign of
 * life.
 */
const BEAT = 2000
/**
 * Milliseconds without a sign of life after which an owner counts as ended, if its process can't be
 * looked up.
 */
const STALE = 10_000
/** The interval at which a lock of another owner is looked at, in milliseconds. */
const POLL = 100
/**
 * Milliseconds after which a wait is reported. Also the longest wait for a lock that this process
 * itself holds: its other stream may be closing.
 */
const NOTICE = 2000
/** How often a deleted lock file is created again, while others create and delete it, too. */
const MAX_TRIES = 10

type State = 'free' | 'ended' | 'running' | 'unknown'
/** The result of a look at a lock file. */
interface Look {
  readonly state: State
  readonly owner: ProcessFacts | undefined
}

/**
 * Takes a lock file for this process, or resolves with a text that names its owner. The lock of a
 * process that has ended is taken over. If the process id can be looked up, this happens at once.
 * Otherwise (another machine or container), it happens after ten seconds without a sign of life in
 * the file. Rejects if something other than a file is in its place.
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

/** Names the process that holds a lock; undefined if it is not certain that the process runs. */
export function ownerOf(path: string): string | undefined {
  const { state, owner } = createLook()(path)
  return state === 'running' ? describeProcess(owner) : undefined
}

function take(path: string, text: string, look: (path: string) => Look): boolean {
  if (create(path, text)) return true
  if (look(path).state !== 'ended') return false
  // A second lock is held while the old lock is removed. Otherwise, two processes that find the
  // same dead owner could each remove the other's new lock.
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
  let file: number
  try {
    file = openSync(path, 'wx', 0o600)
  } catch (thrown) {
    if (codeOf(thrown) === 'EEXIST') return false
    throw thrown
  }
  try {
    writeFileSync(file, text)
    return true
  } catch (thrown) {
    // On a full disk, an empty file would stay, which names no owner.
    rmSync(path, { force: true })
    throw thrown
  } finally {
    closeSync(file)
  }
}

/** Updates the time of a lock file, as a sign of life, until the lock is released. */
function keep(path: string, text: string): Lock {
  const timer = setInterval(beat, BEAT)
  timer.unref?.()

  function beat(): void {
    try {
      if (read(path)?.text !== text) return
      const now = new Date()
      utimesSync(path, now, now)
    } catch {
      // The file was deleted, or can't be accessed now. The next beat tries again.
    }
  }

  function other(): string | undefined {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const found = read(path)
      if (found === undefined ? create(path, text) : found.text === text) return undefined
      if (found !== undefined) return describeProcess(found.owner)
    }
    throw new ValidationError(`the lock file ${path} must stay in its place: others delete it`)
  }

  return {
    other,
    release() {
      clearInterval(timer)
      // Whatever else is in its place is not the lock of this process.
      if (isFile(path) && read(path)?.text === text) rmSync(path, { force: true })
    },
  }
}

/**
 * Makes a function that looks at lock files. It remembers when each file last showed a sign of
 * life.
 */
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
 * Reads a lock file. Undefined if nothing is in its place. `sign` changes with each sign of life.
 * `owner` is undefined if the text does not name an owner. Throws if something else is in its
 * place: a link could name a file that does not exist, and a read of a pipe would wait for ever.
 */
function read(path: string) {
  try {
    const found = lstatSync(path)
    const kind = kindOf(found)
    if (kind !== 'file')
      throw new ValidationError(
        `the lock file ${path} must be a file, and not a ${kind}: remove it`,
      )
    const text = readFileSync(path, 'utf8')
    return { text, sign: `${found.mtimeMs} ${text}`, owner: ownerIn(text) }
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return undefined
    throw thrown
  }
}

function isFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true
}

function kindOf(found: Stats): string {
  if (found.isFile()) return 'file'
  if (found.isSymbolicLink()) return 'link'
  if (found.isDirectory()) return 'folder'
  if (found.isFIFO()) return 'pipe'
  return found.isSocket() ? 'socket' : 'device'
}

function ownerIn(text: string): ProcessFacts | undefined {
  try {
    return readProcess(JSON.parse(text))
  } catch {
    return undefined
  }
}
