import { accessSync, constants, createReadStream, readdirSync, readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ValidationError } from 'sluice/core'
import { codeOf } from 'sluice/internal'

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
