import { accessSync, constants, createReadStream, readdirSync, readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { addAbortSignal } from 'node:stream'
import { ValidationError } from 'sluice/core'
import { codeOf, foreignCause } from 'sluice/internal'
import type { IO } from '../io.js'

/** The error of a file that an option or an argument names. */
export function fileError(
  what: string,
  path: string,
  cause: unknown,
  done: 'read from' | 'written to' = 'read from',
): ValidationError {
  return new ValidationError(`${what} can’t be ${done} ${path}: ${codeOf(cause)}`, { cause })
}

/** Reads the file that an option or an argument names, whole. */
export function readFile(what: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw fileError(what, path, cause)
  }
}

/** Parses JSON that an option or an argument gave. */
export function parseJSON(what: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ValidationError(`${what} must be JSON`)
  }
}

/** Throws where a file that an option names can’t be made, because its folder is not there or may not be written. */
export function checkFolder(what: string, path: string): void {
  try {
    readdirSync(dirname(path))
    accessSync(dirname(path), constants.W_OK)
  } catch (cause) {
    throw fileError(what, path, cause, 'written to')
  }
}

/** The chunks of a file that an argument names, as they are read; `onShare` is given the share of it that has been read. */
export async function* fileChunks(
  what: string,
  path: string,
  onShare: (share: number) => void,
): AsyncGenerator<Uint8Array> {
  try {
    const { size } = await stat(path)
    let read = 0
    for await (const chunk of createReadStream(path) as AsyncIterable<Uint8Array>) {
      yield chunk
      read += chunk.byteLength
      onShare(read / size)
    }
  } catch (cause) {
    throw fileError(what, path, cause)
  }
}

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

/** Loads an optional package that an option needs. Without it, the error says how to install it. */
export async function loadPackage<Module>(
  option: string,
  name: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load()
  } catch (thrown) {
    throw new ValidationError(`${option} needs the package ${name}: npm install ${name}`, {
      cause: foreignCause(thrown),
    })
  }
}
