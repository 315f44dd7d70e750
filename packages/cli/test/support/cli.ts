import { PassThrough } from 'node:stream'
import { type Ran, untilShown } from '@sluice/test-support/command.js'
import { type IO, StopReason } from '../../io.js'
import { run } from '../../program.js'

/** What a command is given, where it runs in the test itself. */
export interface Around {
  readonly env?: Record<string, string | undefined>
  /** Standard input; undefined where there is none: a terminal. A stream may stay open. */
  readonly input?: string | Uint8Array | PassThrough
  /** Which of the outputs are terminals. */
  readonly terminals?: readonly ('stdout' | 'stderr')[]
  readonly columns?: number
  readonly signal?: AbortSignal
}

/** A command that runs in the test itself: a process costs a fifth of a second. */
export interface RunningHere {
  /** Its output so far. */
  readonly output: { out: string; err: string }
  readonly ended: Promise<Ran>
  /** Waits until one of its outputs matches. Rejects, with both, where it ends before. */
  readonly shows: (pattern: RegExp) => Promise<void>
  /** Stops it as by a signal. @default SIGINT, as Ctrl-C */
  stop(signal?: StopReason['signal']): void
}

/** Starts the command with these arguments. */
export function start(args: readonly string[], around: Around = {}): RunningHere {
  const { env = {}, input, terminals = [], columns = 80 } = around
  const stop = new AbortController()
  const output = { out: '', err: '' }
  const watchers = new Set<() => void>()
  const sink = (name: 'out' | 'err'): PassThrough => {
    const stream = new PassThrough()
    stream.on('data', chunk => {
      output[name] += chunk
      for (const look of watchers) look()
    })
    return Object.assign(stream, { isTTY: terminals.includes(`std${name}`), columns })
  }
  const pipe = input instanceof PassThrough ? input : new PassThrough()
  const stdin = Object.assign(pipe, { isTTY: input === undefined })
  if (input !== undefined && input !== pipe) stdin.end(input)
  const io: IO = {
    stdin,
    stdout: sink('out'),
    stderr: sink('err'),
    env: { ...env },
    signal: stop.signal,
    exitCode: 0,
  }
  const ended = run(args, io).then(async code => {
    // What was written last is read in a later task.
    await new Promise(setImmediate)
    // A command that has secrets hears it for good, as its process ends with it.
    process.removeAllListeners('SIGUSR1')
    return { code, ...output }
  })
  return {
    output,
    ended,
    shows: pattern => untilShown(pattern, output, ended, look => void watchers.add(look)),
    stop: (signal = 'SIGINT') => stop.abort(new StopReason(signal)),
  }
}

/** Runs the command to its end. */
export const runHere = (args: readonly string[], around?: Around): Promise<Ran> =>
  start(args, around).ended
