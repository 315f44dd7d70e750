import { type FileHandle, open, readdir, readFile, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { DataStreamsError, isStreamsError, ValidationError } from 'sluice/core'
import { codeOf, draftPrefix, type Lock, syncFolder, takeLock, writeWhole } from 'sluice/internal'
import type { SinkStore } from 'sluice/plugins/sink'
import type { Report } from 'sluice/report'
import { complete } from '../gaps.js'
import { fileError, makeFolder } from '../input/files.js'
import { readReports } from '../input/reports.js'
import type { IO } from '../io.js'
import { keyOf } from '../output/feeds.js'
import type { Compression } from './compression.js'

/** The position in a recording up to which its data is on the disk. */
interface Position {
  /** The name of the current file in the directory; undefined before the first file. */
  readonly file: string | undefined
  /** How many bytes of the current file are complete. */
  readonly bytes: number
  /** For each feed, the time up to which every report is in the files, in the feed's unit. */
  readonly cursors: Readonly<Record<string, number>>
  /**
   * The first file with a report that is newer than its feed's cursor; null if there is none.
   * Undefined if it is unknown.
   */
  readonly from: string | null | undefined
}

type TimedReport = Pick<Report, 'feedID' | 'observationsTimestamp'>

/** A feed with reports in the files that are newer than its cursor. */
interface Ahead {
  /** The first file with such a report. */
  readonly file: string
  /** The time of the newest of them. */
  readonly newest: number
}

/** The limits of a file, after which the next file begins. */
export interface Rotation {
  readonly maxBytes: number
  readonly maxMs: number
}

const LOCK = 'recording.lock'
const JOURNAL = 'recording.json'
/**
 * Matches the names of recorded files: `reports-000001-20270131T120000Z.ndjson.gz`. Their order is
 * the order of time.
 */
const pattern = /^reports-(\d{6,})-\d{8}T\d{6}Z\.ndjson(\.gz|\.zst)?$/

/**
 * A directory of recorded files. New reports are written to the current file. A lock keeps other
 * processes out. A small journal holds the position, and is replaced as a whole after each part of
 * a file. Bytes after that position belong to a part that a killed process has not finished. They
 * are cut off, and their reports are fetched again.
 */
export class Recording {
  readonly #directory: string
  readonly #lock: Lock
  #position: Position
  /**
   * The current file. `#name` is its name, and `#bytes` its size on the disk; the journal is
   * updated afterwards.
   */
  #file: FileHandle | undefined
  #name: string | undefined
  #bytes = 0
  #openedAt = 0
  /** True while the file may hold bytes that the journal does not cover. */
  #isTorn = false
  #written = 0
  /** The keys of recorded reports that the stream delivers again. */
  #known: Set<string> = new Set()
  readonly #ahead = new Map<string, Ahead>()

  private constructor(directory: string, lock: Lock, position: Position) {
    this.#directory = directory
    this.#lock = lock
    this.#position = position
    this.#name = position.file
  }

  /** Opens a directory, and makes it if it is absent. Throws if another process records into it. */
  static async open(directory: string): Promise<Recording> {
    await makeFolder(directory).catch((cause: unknown) => {
      throw fileError('--dir', directory, cause, 'written to')
    })
    const lock = await lockDirectory(directory)
    try {
      const recording = new Recording(directory, lock, await readPosition(directory))
      await recording.#removeTorn()
      return recording
    } catch (thrown) {
      lock.release()
      throw thrown
    }
  }

  /** The recording as the store of a sink. Its files are compressed and rotate like this. */
  storeOf(compression: Compression, rotation: Rotation, io: IO): SinkStore {
    return {
      name: this.#directory,
      open: async () => {
        this.#known = await this.#readKnown(io)
      },
      position: async () => this.#position.cursors,
      write: async ({ reports, receivedAt, position }) => {
        let text = ''
        const added: Report[] = []
        for (const [at, report] of reports.entries())
          if (!this.#known.has(keyOf(report))) {
            text += lineOf(report, receivedAt[at])
            added.push(report)
          }
        const cursors = { ...this.#position.cursors, ...position }
        if (text === '') await this.#write({ cursors })
        else await this.#append(text, added, cursors, compression, rotation)
        for (const report of reports) this.#known.delete(keyOf(report))
        this.#written += added.length
        return []
      },
      close: () => this.close(),
    }
  }

  /**
   * Returns the keys of the recorded reports that are newer than the cursors, because a stream
   * delivers these reports again. A feed without a cursor gets the time of its earliest report as
   * its cursor. Reads the files from the first with such a report on.
   */
  async #readKnown(io: IO): Promise<Set<string>> {
    const { cursors, from } = this.#position
    const keys = new Set<string>()
    const earliest: Record<string, number> = {}
    const first = from === null ? Number.POSITIVE_INFINITY : from === undefined ? 0 : numberOf(from)
    for (const name of await listFiles(this.#directory)) {
      if (numberOf(name) < first) continue
      const path = join(this.#directory, name)
      for await (const given of readReports(path, io, { mayBeEmpty: true, mayBeCut: true })) {
        const report = complete(given)
        const { feedID, observationsTimestamp: time } = report
        if (time <= (cursors[feedID] ?? Number.NEGATIVE_INFINITY)) continue
        keys.add(keyOf(report))
        this.#notice(report, name)
        if (cursors[feedID] === undefined)
          earliest[feedID] = Math.min(time, earliest[feedID] ?? time)
      }
    }
    await this.#write({ cursors: { ...cursors, ...earliest } })
    return keys
  }

  /** Remembers the file of a report that may be newer than its feed's cursor. */
  #notice({ feedID, observationsTimestamp: time }: TimedReport, file: string): void {
    const known = this.#ahead.get(feedID)
    const newest = Math.max(time, known?.newest ?? time)
    this.#ahead.set(feedID, { file: known?.file ?? file, newest })
  }

  /** The first file with a report that is newer than its feed's cursor. */
  #firstAhead(cursors: Position['cursors']): string | null {
    let first: string | null = null
    for (const [feedID, { file, newest }] of this.#ahead)
      if (newest <= (cursors[feedID] ?? Number.NEGATIVE_INFINITY)) this.#ahead.delete(feedID)
      else if (first === null || numberOf(file) < numberOf(first)) first = file
    return first
  }

  /**
   * Appends lines to the file. When the promise resolves, the lines are on the disk and the journal
   * covers them.
   */
  async #append(
    text: string,
    reports: readonly Report[],
    cursors: Position['cursors'],
    compression: Compression,
    { maxBytes, maxMs }: Rotation,
  ): Promise<void> {
    const part = await compression.compress(text)
    const isOver = this.#bytes >= maxBytes || performance.now() - this.#openedAt >= maxMs
    try {
      if (this.#isTorn) await this.#file?.truncate(this.#bytes)
      this.#isTorn = false
      // Each process begins a new file, because the last file may have another compression.
      const file = this.#file === undefined || isOver ? await this.#rotate(compression) : this.#file
      this.#isTorn = true
      await file.appendFile(part)
      await file.datasync()
      const bytes = this.#bytes + part.byteLength
      for (const report of reports) this.#notice(report, this.#name as string)
      await this.#write({ file: this.#name, bytes, cursors })
      this.#bytes = bytes
      this.#isTorn = false
    } catch (cause) {
      if (isStreamsError(cause)) throw cause
      throw new DataStreamsError(`${this.#name} can’t be written: ${codeOf(cause)}`, { cause })
    }
  }

  /** Closes the file, and releases the lock of the directory. */
  async close(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    try {
      await file?.close()
    } finally {
      this.#lock.release()
    }
  }

  /** How many reports this process has written. */
  get written(): number {
    return this.#written
  }

  async #rotate({ ending }: Compression): Promise<FileHandle> {
    await this.#file?.close()
    this.#file = undefined
    const number = this.#name === undefined ? 1 : numberOf(this.#name) + 1
    const time = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
    this.#name = `reports-${String(number).padStart(6, '0')}-${time}${ending}`
    this.#bytes = 0
    this.#openedAt = performance.now()
    const path = join(this.#directory, this.#name)
    this.#file = await open(path, 'ax').catch((cause: unknown) => {
      throw fileError('--dir', path, cause, 'written to')
    })
    await syncFolder(this.#directory)
    return this.#file
  }

  /** Replaces the journal. */
  async #write(change: Partial<Position>): Promise<void> {
    const moved = { ...this.#position, ...change }
    const next = { ...moved, from: this.#firstAhead(moved.cursors) }
    await writeWhole(join(this.#directory, JOURNAL), `${JSON.stringify(next)}\n`)
    this.#position = next
  }

  /**
   * Removes the data that a killed process has not finished: the end of the current file, and newer
   * files.
   */
  async #removeTorn(): Promise<void> {
    const { file, bytes } = this.#position
    const directory = this.#directory
    const names = await listFiles(directory)
    if (file !== undefined && !names.includes(file))
      throw new ValidationError(
        `--dir: ${file} is missing in ${directory}, which its journal names`,
      )
    if (file !== undefined) await truncate(join(directory, file), bytes)
    const newest = file === undefined ? 0 : numberOf(file)
    for (const name of names) if (numberOf(name) > newest) await rm(join(directory, name))
  }
}

function lineOf(report: Report, receivedAt: number | undefined): string {
  const { feedID, validFromTimestamp, observationsTimestamp, fullReport, source, originID } = report
  const times = { validFromTimestamp, observationsTimestamp }
  const line = { feedID, ...times, fullReport, source, originID, receivedAt }
  return `${JSON.stringify(line)}\n`
}

/** The names of the recorded files of a directory, oldest first. */
async function listFiles(directory: string): Promise<readonly string[]> {
  const names = (await readdir(directory)).filter(name => pattern.test(name))
  return names.sort((one, other) => numberOf(one) - numberOf(other))
}

function numberOf(name: string): number {
  return Number(pattern.exec(name)?.[1])
}

/** Locks a directory for this process. It takes over the lock of a killed process. */
async function lockDirectory(directory: string): Promise<Lock> {
  const path = join(directory, LOCK)
  const taken = await takeLock(path).catch((cause: unknown) => {
    if (isStreamsError(cause)) throw cause
    throw fileError('--dir', directory, cause, 'written to')
  })
  if (typeof taken !== 'string') return taken
  throw new ValidationError(`--dir: ${taken} records into ${directory}: ${path} is its lock`)
}

/**
 * Reads the journal of a directory. Returns an empty position if the directory has no journal and
 * no files.
 */
async function readPosition(directory: string): Promise<Position> {
  const path = join(directory, JOURNAL)
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    if (codeOf(cause) === 'ENOENT') return undefined
    throw fileError('--dir', path, cause)
  })
  // Removes the drafts that killed processes have left.
  for (const name of await readdir(directory))
    if (name.startsWith(draftPrefix(path))) await rm(join(directory, name))
  if (text === undefined) {
    // Without a journal, nobody knows which part of the last file is complete.
    if ((await listFiles(directory)).length > 0)
      throw new ValidationError(`--dir: ${directory} holds recorded files, and no ${JOURNAL}`)
    return { file: undefined, bytes: 0, cursors: {}, from: null }
  }
  try {
    const { file, bytes, cursors, from } = JSON.parse(text) as Position
    const isKnown = from === undefined || from === null || pattern.test(from)
    if (!Number.isSafeInteger(bytes) || typeof cursors !== 'object' || cursors === null || !isKnown)
      throw new TypeError('no position')
    return { file, bytes, cursors, from }
  } catch {
    throw new ValidationError(`--dir: ${path} is not the journal of a recording`)
  }
}
