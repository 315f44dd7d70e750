import { addAbortSignal } from 'node:stream'
import { ValidationError } from 'sluice/core'
import type { IO } from '../io.js'

/**
 * The chunks of standard input, as they come. (A synchronous read fails with EAGAIN where the pipe is not ready.) `what` says in
 * the error what should have been piped in.
 */
export async function* stdinChunks(io: IO, what: string): AsyncGenerator<Uint8Array> {
  const { stdin, signal } = io
  if (stdin.isTTY) throw new ValidationError(`${what} from standard input: pipe it in`)
  try {
    yield* addAbortSignal(signal, stdin) as AsyncIterable<Uint8Array>
  } catch (error) {
    // The user stopped the command and needs no message, but a script must see a failure.
    if (signal.aborted) io.exitCode = 1
    throw error
  }
}

/** All of standard input, of at most so many bytes. */
export async function readStdin(io: IO, what: string, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of stdinChunks(io, what)) {
    size += chunk.byteLength
    if (size > maxBytes)
      throw new ValidationError(`standard input must have at most ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
