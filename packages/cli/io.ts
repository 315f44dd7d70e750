import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { codeOf } from 'sluice/internal'

/** Where a command writes: a terminal, a pipe or a file. */
export type Output = Writable & {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
}

/** What a command has of the world around it. Tests give it one of their own. */
export interface IO {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  /** Results. */
  readonly stdout: Output
  /** All else: errors, events, progress. */
  readonly stderr: Output
  /** `--env-file` adds variables to it. */
  readonly env: Record<string, string | undefined>
  /** Aborts when the user stops the command, or nobody reads what it writes any more. */
  readonly signal: AbortSignal
  /** With what the command ends, unless it throws. */
  exitCode: number
}

/** Takes colours and the like out where no terminal shows them. */
function textFor({ isTTY }: Output, text: string): string {
  return isTTY || !text.includes('\x1b') ? text : stripVTControlCharacters(text)
}

/** Writes text to standard output; a promise where it must be waited for, because the reader is slower. */
export function print({ stdout, signal }: IO, text: string): Promise<unknown> | undefined {
  if (stdout.write(textFor(stdout, text)) || signal.aborted) return undefined
  // Where nobody reads any more, the signal aborts.
  return once(stdout, 'drain', { signal }).catch(() => undefined)
}

/** Writes a line to standard output. */
export function say(io: IO, text = ''): void {
  io.stdout.write(textFor(io.stdout, `${text}\n`))
}

/** Writes a line to standard error. */
export function warn(io: IO, text: string): void {
  // A progress bar may stand there, on a terminal.
  io.stderr.write(`${io.stderr.isTTY ? '\r\x1b[2K' : ''}${textFor(io.stderr, `sluice: ${text}\n`)}`)
}

/** Resolves when the user stops the command. */
export function stopped({ signal }: IO): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** The process as a command has it. */
export function processIO(): IO {
  const { stdout, stderr, env } = process
  const stop = new AbortController()
  // The second time the process ends at once.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  for (const stream of [stdout, stderr])
    stream.on('error', error => {
      const code = codeOf(error)
      // The reader has closed the pipe, as `head` does.
      if (code === 'EPIPE') return stop.abort()
      if (stream === stdout) stderr.write(`sluice: standard output can’t be written: ${code}\n`)
      // At once, before cursors are saved behind reports that nobody has.
      process.exit(1)
    })
  return {
    // Opened when a command reads it: an open one would keep the others running.
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
