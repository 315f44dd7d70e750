import { type FileHandle, open, readdir, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { DataStreamsError, ValidationError } from 'sluice/core'
import { codeOf, syncFolder } from 'sluice/internal'
import type { Journal } from './journal.js'
import type { Compression } from './compression.js'

/** When a file is followed by the next one. */
export interface Rotation {
  readonly maxBytes: number
  readonly maxMs: number
}

/** The files of a recording, of which one is written. */
export interface RecordingFiles {
  /** Appends lines to the file: when it settles, they are on the disk, and the journal says so. */
  append(text: string): Promise<void>
  /** The name of the file that is written. */
  readonly current: string | undefined
  close(): Promise<void>
}

/** `reports-000001-20270131T120000Z.ndjson.gz`: sorted by name they are sorted by time. */
const pattern = /^reports-(\d{6,})-\d{8}T\d{6}Z\.ndjson(\.gz|\.zst)?$/

/** The names of the recorded files of a directory, oldest first. */
export async function listRecorded(directory: string): Promise<readonly string[]> {
  const names = (await readdir(directory)).filter(name => pattern.test(name))
  return names.sort((one, other) => numberOf(one) - numberOf(other))
}

function numberOf(name: string): number {
  return Number(pattern.exec(name)?.[1])
}

/** Removes what was being written when the process ended: it is in no position, and comes again. */
export async function removeTorn(directory: string, { position }: Journal): Promise<void> {
  const { file, bytes } = position
  const names = await listRecorded(directory)
  if (file !== undefined && !names.includes(file))
    throw new ValidationError(`--dir: ${file} is missing in ${directory}, which its journal names`)
  if (file !== undefined) await truncate(join(directory, file), bytes)
  const newest = file === undefined ? 0 : numberOf(file)
  for (const name of names) if (numberOf(name) > newest) await rm(join(directory, name))
}

/** Opens the files of a recording for writing. */
export async function openFiles(
  directory: string,
  journal: Journal,
  compression: Compression,
  { maxBytes, maxMs }: Rotation,
): Promise<RecordingFiles> {
  let handle: FileHandle | undefined
  let { file: name, bytes } = journal.position
  let openedAt = 0

  async function rotate(): Promise<FileHandle> {
    await handle?.close()
    handle = undefined
    const number = name === undefined ? 1 : numberOf(name) + 1
    const time = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
    name = `reports-${String(number).padStart(6, '0')}-${time}${compression.ending}`
    bytes = 0
    openedAt = performance.now()
    handle = await open(join(directory, name), 'ax')
    await syncFolder(directory)
    return handle
  }

  return {
    get current() {
      return name
    },
    async append(text) {
      const part = await compression.compress(text)
      // A process that begins begins a file: the last one may be compressed otherwise.
      const isOver = bytes >= maxBytes || performance.now() - openedAt >= maxMs
      const file = handle === undefined || isOver ? await rotate() : handle
      try {
        await file.appendFile(part)
        await file.datasync()
      } catch (cause) {
        throw new DataStreamsError(`${name} can’t be written: ${codeOf(cause)}`, { cause })
      }
      bytes += part.byteLength
      await journal.write({ file: name, bytes })
    },
    async close() {
      await handle?.close()
    },
  }
}
