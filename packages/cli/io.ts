import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { describeCode } from './system-errors.js'

/** An output of a command: a terminal, a pipe or a file. */
export type Output = Writable & {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
}

/** Why a command has to end early. */
export class StopReason extends Error {
  /** The signal that the process got; `EPIPE` if the reader of its output closed the pipe. */
  readonly signal: 'SIGINT' | 'SIGTERM' | 'EPIPE'

  constructor(signal: StopReason['signal']) {
    super(signal === 'EPIPE' ? 'the reader of the output closed the pipe' : `stopped by ${signal}`)
    this.signal = signal
  }
}

/** The input, outputs and environment of a command. Tests provide their own object. */
export interface IO {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  /** The output for results. */
  readonly stdout: Output
  /** The output for everything else: errors, events, progress. */
  readonly stderr: Output
  /** The environment variables; `--env-file` adds some. */
  readonly env: Record<string, string | undefined>
  /**
   * Aborts when the user stops the command, or when the reader of its output closes the pipe. The
   * reason is a StopReason.
   */
  readonly signal: AbortSignal
  /** The exit code of the command, unless it throws. */
  exitCode: number
}

/** Removes colours and other control sequences if the output is not a terminal. */
function textFor({ isTTY }: Output, text: string): string {
  return isTTY || !text.includes('\x1b') ? text : stripVTControlCharacters(text)
}

/** A text from the service, with `?` for every character that could control a terminal. */
export function printable(text: string): string {
  return text.replace(/[^ -~]/g, '?')
}

/**
 * Writes text to standard output. If the reader is slower, returns a promise that the caller must
 * wait for.
 */
export function print({ stdout, signal }: IO, text: string): Promise<unknown> | undefined {
  if (stdout.write(textFor(stdout, text)) || signal.aborted) return undefined
  // If the reader closes the pipe, the signal aborts.
  return once(stdout, 'drain', { signal }).catch(() => undefined)
}

/** Writes a line to standard output. */
export function say(io: IO, text = ''): void {
  io.stdout.write(textFor(io.stdout, `${text}\n`))
}

/** Writes a line to standard error. */
export function warn(io: Pick<IO, 'stderr'>, text: string): void {
  // On a terminal, a progress bar may be in this line, so the line is cleared.
  io.stderr.write(`${io.stderr.isTTY ? '\r\x1b[2K' : ''}${textFor(io.stderr, `sluice: ${text}\n`)}`)
}

/** Writes a line that tells the user about the command, such as how it ends, to standard error. */
export function tell(io: IO, text: string): void {
  io.stderr.write(textFor(io.stderr, `${text}\n`))
}

/** Resolves when the user stops the command. */
export function stopped({ signal }: IO): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** Resolves as `promise` does. Rejects when the user stops the command. */
export function unlessStopped<Value>(
  io: Pick<IO, 'signal'>,
  promise: Promise<Value>,
): Promise<Value> {
  const { signal } = io
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}

/**
 * Says that a command was stopped before it was done, and sets its exit code to 128 and the number
 * of the signal, as shells do. A command whose reader closed the pipe, such as `head`, is done.
 */
export function noteStop(io: IO): void {
  if (!io.signal.aborted) return
  const { reason } = io.signal
  const signal = reason instanceof StopReason ? reason.signal : 'SIGINT'
  if (signal === 'EPIPE') return
  io.exitCode = signal === 'SIGINT' ? 130 : 143
  warn(io, `stopped by ${signal} before it was done`)
}

/** The input, outputs and environment of this process. */
export function processIO(): IO {
  const { stdout, stderr, env } = process
  const stop = new AbortController()
  // A second signal ends the process at once.
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => stop.abort(new StopReason(signal)))
  for (const stream of [stdout, stderr])
    stream.on('error', error => {
      const { code } = error as NodeJS.ErrnoException
      // The reader has closed the pipe, as `head` does.
      if (code === 'EPIPE') return stop.abort(new StopReason('EPIPE'))
      if (stream === stdout)
        stderr.write(`sluice: standard output can’t be written: ${describeCode(error)}\n`)
      // Ends at once, before cursors are saved past reports that nobody received.
      process.exit(1)
    })
  return {
    // Standard input is opened lazily, because open input would keep other commands running.
    get stdin() {
      return process.stdin
    },
    stdout,
    stderr,
    env,
    signal: stop.signal,
    exitCode: 0,
  }
}
