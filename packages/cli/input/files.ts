import {
  accessSync,
  constants,
  createReadStream,
  readdirSync,
  readFileSync,
  statSync,
} from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { addAbortSignal } from 'node:stream'
import { ValidationError } from 'sluice/core'
import { codeOf, createPermissions, foreignCause } from 'sluice/internal'
import { type IO, warn } from '../io.js'
import { describeCode } from '../system-errors.js'

/** Makes the error for a file that an option or an argument names. */
export function fileError(
  what: string,
  path: string,
  cause: unknown,
  done: 'read from' | 'written to' = 'read from',
): ValidationError {
  return new ValidationError(`${what} can’t be ${done} ${path}: ${describeCode(cause)}`, { cause })
}

/** Reads the whole file that an option or an argument names. */
export function readFile(what: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw fileError(what, path, cause)
  }
}

/** The files that each output was warned about. */
const warned = new WeakMap<IO['stderr'], Set<string>>()

/**
 * Warns once if other users may read or change a file with a secret. Unlike the key of an enclave,
 * such a file is used nevertheless, because many tools write it. Only POSIX systems have modes.
 */
export function warnOfOthers(stderr: IO['stderr'] | undefined, what: string, path: string): void {
  if (stderr === undefined) return
  const known = warned.get(stderr) ?? new Set()
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats?.isFile() !== true || known.has(path)) return
  warned.set(stderr, known.add(path))
  try {
    createPermissions().checkFile(path, stats, 'secret')
  } catch {
    warn(
      { stderr },
      `${what}: other users may read or change ${path}, which has a secret: chmod 600 it`,
    )
  }
}

/** Reads the whole text of a file, in UTF-8 or, with a byte order mark, in UTF-16. */
export function readText(what: string, path: string): string {
  const bytes = readFile(what, path)
  const isUTF16 =
    (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)
  const encoding = !isUTF16 ? 'utf-8' : bytes[0] === 0xff ? 'utf-16le' : 'utf-16be'
  try {
    // It drops the byte order mark.
    return new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new ValidationError(`${what} must be text in UTF-8 or UTF-16, which ${path} is not`, {
      cause,
    })
  }
}

/** Reads a file piece by piece, so that one without an end is refused after `maxBytes` bytes. */
export async function readSome(
  what: string,
  path: string,
  maxBytes: number,
  signal?: AbortSignal,
): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of createReadStream(path, { ...(signal && { signal }) })) {
      chunks.push(chunk as Uint8Array)
      size += (chunk as Uint8Array).byteLength
      if (size > maxBytes) break
    }
  } catch (cause) {
    throw fileError(what, path, cause)
  }
  if (size > maxBytes)
    throw new ValidationError(`${what} ${path} must have at most ${maxBytes} bytes`)
  return Buffer.concat(chunks)
}

/** Parses JSON that an option or an argument gave. */
export function parseJSON(what: string, text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''))
  } catch {
    throw new ValidationError(`${what} must be JSON`)
  }
}

/** Throws if the folder of a file that an option names does not exist or is not writable. */
export function checkFolder(what: string, path: string): void {
  try {
    readdirSync(dirname(path))
    accessSync(dirname(path), constants.W_OK)
  } catch (cause) {
    throw fileError(what, path, cause, 'written to')
  }
}

/**
 * Makes a folder and its missing parents. Node's own recursive form never ends on file systems such
 * as /proc, which answer ENOENT however often one asks.
 */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  const make = async (): Promise<void> => {
    try {
      await mkdir(path, { mode })
    } catch (thrown) {
      // Another file in its place is an error.
      if (codeOf(thrown) !== 'EEXIST' || !(await stat(path)).isDirectory()) throw thrown
    }
  }
  try {
    await make()
  } catch (thrown) {
    const parent = dirname(path)
    if (codeOf(thrown) !== 'ENOENT' || parent === path) throw thrown
    await makeFolder(parent, mode)
    await make()
  }
}

/**
 * Yields the chunks of a file that an argument names. Calls `onShare` with the share of the file
 * that has been read.
 */
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
 * Yields the chunks of standard input as they arrive. (A synchronous read fails with EAGAIN if the
 * pipe is not ready.) The error begins with `what` if standard input is a terminal.
 */
export async function* stdinChunks(io: IO, what: string): AsyncGenerator<Uint8Array> {
  const { stdin, signal } = io
  if (stdin.isTTY) throw new ValidationError(`${what} from standard input: pipe it in`)
  yield* addAbortSignal(signal, stdin) as AsyncIterable<Uint8Array>
}

/** Reads all of standard input. Throws if it has more than `maxBytes` bytes. */
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

/**
 * Loads an optional package that an option needs. If the package is missing, the error says how to
 * install it.
 */
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
