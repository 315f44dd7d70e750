import { randomUUID } from 'node:crypto'
import { readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { sleep } from '../../core/async.js'
import { codeOf } from './files.js'
import {
  describeProcess,
  isRunning,
  isThisProcess,
  type ProcessFacts,
  readProcess,
  startOf,
  thisProcess,
} from './running.js'

/** A lock file that this process has. */
export interface Lock {
  /** Names the process that has the lock now; undefined while it is this one. A lock file that was deleted is made again. */
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
/** Milliseconds after which a wait is reported, and for which this process is waited for: its other stream may be closing. */
const NOTICE = 2000

type State = 'free' | 'ended' | 'running' | 'unknown'
/** What a look at a lock file finds. */
interface Look {
  readonly state: State
  readonly owner: ProcessFacts | undefined
}

/**
 * Takes a lock file for this process, or resolves with words that name its owner. The lock of a process that has ended is taken
 * over: at once where its id can be looked up, otherwise (another machine, another container) where the file shows no sign of
 * life for ten seconds.
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
  // A lock is removed under a second one, or two that find the same dead process would remove each other's.
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

/** A lock file: its text, what changes with each sign of life, and its owner where the text says it. */
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
