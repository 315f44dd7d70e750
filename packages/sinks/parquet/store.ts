import { mkdir, realpath, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { DataStreamsError, type Log, ValidationError } from 'sluice/core'
import { codeOf, type Lock, takeLock } from 'sluice/internal'
import type {
  SinkBatch,
  SinkOpening,
  SinkPosition,
  SinkRefusal,
  SinkStore,
} from 'sluice/plugins/sink'
import { databaseError } from '../duckdb/database.js'
import type { planTables } from '../duckdb/options.js'
import { ParquetJournal } from './journal.js'

/** When rows go into files. */
export interface Rotation {
  readonly rotateMs: number
  readonly rotateBytes: number
  readonly rotateOnClose: boolean
}

const LOCK = '.sluice-parquet.lock'
/** Milliseconds after which a rotation that failed is tried again. */
const RETRY = 10_000
/** So many times `rotateBytes` may wait while rotations fail. Then writes fail, too. */
const MAX_WAITING = 2

/** Keeps rows in a journal, and puts them into files when it is time. */
export class ParquetStore implements SinkStore {
  readonly name: string
  readonly #folder: string
  readonly #rotation: Rotation
  readonly #plan: ReturnType<typeof planTables>
  #log: Log = {}
  #lock: Lock | undefined
  #journal: ParquetJournal | undefined
  #timer: NodeJS.Timeout | undefined
  /** When a rotation that failed may be tried again, by `performance.now()`. */
  #retryAt: number | undefined
  /** What runs now. The journal does one thing at a time. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(folder: string, rotation: Rotation, plan: ReturnType<typeof planTables>) {
    this.name = `parquet ${folder}`
    this.#folder = resolve(folder)
    this.#rotation = rotation
    this.#plan = plan
  }

  open({ log }: SinkOpening): Promise<void> {
    this.#log = log
    return this.#use('opened', journal => this.#rotateIfDue(journal))
  }

  write(batch: SinkBatch): Promise<readonly SinkRefusal[]> {
    return this.#use('written', async journal => {
      // The journal must not grow without end while rotations fail.
      if (this.#retryAt !== undefined && journal.bytes > MAX_WAITING * this.#rotation.rotateBytes)
        await this.#rotate(journal)
      const refusals = await journal.append(batch)
      await this.#rotateIfDue(journal)
      return refusals
    })
  }

  position(): Promise<SinkPosition> {
    return this.#use('read', journal => journal.position())
  }

  close(): Promise<void> {
    return this.#next(async () => {
      const journal = this.#journal
      try {
        if (journal !== undefined && this.#rotation.rotateOnClose) await this.#tryToRotate(journal)
      } finally {
        await this.#closeJournal()
        clearTimeout(this.#timer)
        this.#lock?.release()
        this.#lock = undefined
      }
    })
  }

  /** Rotates if rows have waited for long enough, or are enough. Otherwise sets the timer. */
  async #rotateIfDue(journal: ParquetJournal): Promise<void> {
    const { rotateMs, rotateBytes } = this.#rotation
    const { bytes, since, isRotating } = journal
    if (since === undefined && !isRotating) return
    // The clock may have been set back.
    const left = Math.min((since ?? 0) + rotateMs - Date.now(), rotateMs)
    const pause = (this.#retryAt ?? 0) - performance.now()
    const isDue = left <= 0 || bytes >= rotateBytes || isRotating
    if (isDue && pause <= 0) await this.#tryToRotate(journal)
    else this.#wait(isDue ? pause : Math.max(left, pause))
  }

  /** A rotation that fails is tried again later. The rows are safe in the journal. */
  async #tryToRotate(journal: ParquetJournal): Promise<void> {
    try {
      await this.#rotate(journal)
    } catch (thrown) {
      const { message } = databaseError(this.name, 'put into files', thrown)
      this.#log.warn?.(`${message}; the rows wait in the journal`)
      await this.#closeJournal()
      this.#wait(RETRY)
    }
  }

  async #rotate(journal: ParquetJournal): Promise<void> {
    this.#retryAt = performance.now() + RETRY
    await journal.rotate()
    this.#retryAt = undefined
    clearTimeout(this.#timer)
  }

  /** Has rows rotated that come after the last write. */
  #wait(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#use('put into files', journal => this.#rotateIfDue(journal)).catch((error: Error) => {
        this.#log.warn?.(`${error.message}; the rows wait in the journal`)
        this.#wait(RETRY)
      })
    }, ms)
    // The journal keeps the rows if the program ends.
    this.#timer.unref()
  }

  /** Runs the work after what runs now. */
  #next<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#last.then(work)
    this.#last = result.catch(() => undefined)
    return result
  }

  /**
   * Opens the journal if it is not open, and does the work. After an error the journal is closed,
   * and the next call opens it again.
   */
  #use<Result>(done: string, work: (journal: ParquetJournal) => Promise<Result>): Promise<Result> {
    return this.#next(async () => {
      try {
        this.#journal ??= await this.#openJournal()
        return await work(this.#journal)
      } catch (thrown) {
        await this.#closeJournal()
        throw databaseError(this.name, done, thrown)
      }
    })
  }

  async #openJournal(): Promise<ParquetJournal> {
    const folder = await makeFolder(this.#folder, this.name)
    this.#lock ??= await this.#takeLock(folder)
    return ParquetJournal.open(folder, this.name, this.#plan)
  }

  async #takeLock(folder: string): Promise<Lock> {
    const path = join(folder, LOCK)
    const taken = await takeLock(path)
    if (typeof taken !== 'string') return taken
    const message = `${this.name} can’t be opened: ${taken} writes into it, and ${path} is its lock`
    throw new DataStreamsError(message, { isRetryable: true })
  }

  async #closeJournal(): Promise<void> {
    const journal = this.#journal
    this.#journal = undefined
    await journal?.close()
  }
}

/** Makes the folder if it is absent, and returns its path without symbolic links. */
async function makeFolder(folder: string, name: string): Promise<string> {
  try {
    await mkdir(folder).catch((thrown: unknown) => {
      if (codeOf(thrown) !== 'EEXIST') throw thrown
    })
    if ((await stat(folder)).isDirectory()) return await realpath(folder)
  } catch (cause) {
    const code = codeOf(cause)
    const rules: Readonly<Record<string, string>> = {
      ENOENT: 'the folder that it should be in does not exist; make it, or give another path',
      ENOTDIR: 'a part of the path is a file; give another path',
    }
    const reason = rules[code] ?? `the folder can’t be made (${code})`
    if (code === 'ENOSPC') throw databaseError(name, 'opened', cause)
    throw new ValidationError(`${name} can’t be opened: ${reason}`, { cause })
  }
  throw new ValidationError(`${name} can’t be opened: it is not a folder; give another path`)
}
