import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ValidationError } from 'sluice/core'
import { codeOf, draftPrefix, writeWhole } from 'sluice/internal'

/** How far a recording has come, all of it on the disk. */
export interface Position {
  /** The name of the file that is written, within the directory; undefined before the first. */
  readonly file: string | undefined
  /** How many bytes of it are whole. */
  readonly bytes: number
  /** For each feed the time, in its unit, up to which every report is in the files. */
  readonly cursors: Readonly<Record<string, number>>
}

const NAME = 'recording.json'

/**
 * The journal of a recording: a small file that is replaced whole after each write of reports. What lies behind the position it
 * holds was being written when the process ended, and comes again.
 */
export interface Journal {
  readonly position: Position
  /** Replaces the position; the calls wait for each other. */
  write(change: Partial<Position>): Promise<void>
}

/** Opens the journal of a directory, or begins one where there are no files yet. */
export async function openJournal(directory: string, isEmpty: boolean): Promise<Journal> {
  const path = join(directory, NAME)
  const found = await readPosition(path)
  await removeDrafts(directory, path)
  // Without it nobody knows what was being written when the process ended.
  if (found === undefined && !isEmpty)
    throw new ValidationError(`--dir: ${directory} holds recorded files, and no ${NAME}`)
  let position = found ?? { file: undefined, bytes: 0, cursors: {} }
  let last: Promise<void> = Promise.resolve()
  return {
    get position() {
      return position
    },
    write(change) {
      const written = last.then(async () => {
        const next = { ...position, ...change }
        await writeWhole(path, `${JSON.stringify(next)}\n`)
        position = next
      })
      last = written.catch(() => undefined)
      return written
    },
  }
}

/** Removes the drafts that killed processes have left. */
async function removeDrafts(directory: string, path: string): Promise<void> {
  for (const name of await readdir(directory))
    if (name.startsWith(draftPrefix(path))) await rm(join(directory, name))
}

async function readPosition(path: string): Promise<Position | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new ValidationError(`--dir: ${path} can’t be read: ${codeOf(error)}`, { cause: error })
  }
  try {
    const { file, bytes, cursors } = JSON.parse(text) as Position
    if (!Number.isSafeInteger(bytes) || typeof cursors !== 'object' || cursors === null)
      throw new TypeError('no position')
    return { file, bytes, cursors }
  } catch {
    throw new ValidationError(`--dir: ${path} is not the journal of a recording`)
  }
}
