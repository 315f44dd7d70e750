import {
  abortable,
  asError,
  checkFunction,
  checkText,
  DataStreamsError,
  isStreamsError,
  number,
  oneOf,
  optional,
  readOptions,
  type Schema,
  withDefault,
  withTimeout,
} from 'sluice/core'
import {
  asyncDispose,
  codeOf,
  createPermissions,
  type Health,
  type Lock,
  type PermissionOptions,
  permissionRules,
  takeLock,
} from 'sluice/internal'
import { type AuditContent, type AuditHead, auditError } from './record.js'
import { AuditWriter, type Draft, type Written } from './writer.js'

/** Options of `openAuditLog`. */
export interface AuditLogOptions extends PermissionOptions {
  /**
   * The file that records are appended to. If it does not exist, it is made with access for its
   * owner only.
   */
  readonly file: string
  /**
   * Called with each record, in order, once the record is in the file. Use it to store records
   * elsewhere. Anybody who has the latest head can tell whether records were removed. If `onRecord`
   * returns a promise, the request waits for the promise, at most 5 s. If `onRecord` fails or takes
   * longer, the request is not made.
   */
  readonly onRecord?: (line: string, head: AuditHead) => unknown
  /**
   * The size of a file, in bytes, at which the file is renamed and another one begun.
   * @default 67108864
   */
  readonly maxBytes?: number
  /**
   * When records are forced to the disk. With `each`, before the request goes on. With `never`,
   * whenever the system does it; a power failure may then lose records. @default 'each'
   */
  readonly fsync?: 'each' | 'never'
}

/** The smallest `maxBytes`. */
const MIN_BYTES = 4096

const schema = {
  ...permissionRules,
  file: checkText,
  onRecord: optional(checkFunction<NonNullable<AuditLogOptions['onRecord']>>),
  maxBytes: withDefault(67_108_864, number({ min: MIN_BYTES, whole: true })),
  fsync: withDefault('each', oneOf('each', 'never')),
} satisfies Schema<AuditLogOptions>

/** An audit log in a file. */
export interface OpenAuditLog extends AsyncDisposable {
  /**
   * Appends a record. Resolves with its number once it is written and `onRecord` is done. With
   * `fsync: 'each'` the record is on the disk then. Rejects if the record can't be written, or if
   * `onRecord` fails.
   */
  append(content: AuditContent): Promise<number>
  /** The head of the log: the last record, which authenticates all records before it. */
  readonly head: AuditHead
  /** Records that the log is closed, and closes it. Idempotent. */
  close(): Promise<void>
}

interface Entry extends Draft {
  readonly resolve: (seq: number) => void
  readonly reject: (error: Error) => void
}

/** Milliseconds for which a record waits for `onRecord`. */
const MAX_NOTICE = 5000

/**
 * Opens an audit log, checks the existing file, and records the start. Each record contains the
 * hash of the previous one. Only one process at a time can write the log. If a write fails, its
 * records are rejected; the next record tries again.
 */
export async function openAuditLog(options: AuditLogOptions): Promise<OpenAuditLog> {
  const { file, onRecord, maxBytes, fsync, insecurePermissions } = readOptions(
    'openAuditLog',
    options,
    schema,
  )
  const permissions = createPermissions({ insecurePermissions })
  const lock = await takeLock(`${file}.lock`).catch(thrown => {
    const why = isStreamsError(thrown) ? thrown.message : codeOf(thrown)
    throw auditError(`${file}.lock can't be written: ${why}`)
  })
  if (typeof lock === 'string')
    throw auditError(
      `${file} is written by another process, which an audit log has one of: ${lock}`,
    )
  try {
    const writer = await AuditWriter.open(file, {
      maxBytes,
      isSynced: fsync === 'each',
      permissions,
    })
    const log = new AuditLog(writer, onRecord, lock)
    return await log.start().catch(async thrown => {
      await writer.close()
      throw thrown
    })
  } catch (thrown) {
    lock.release()
    throw thrown
  }
}

/** Makes a log that tells a health whether its records could be written. */
export function watchRecords(
  log: OpenAuditLog,
  health: Pick<Health<'audit-failing'>, 'set'>,
): OpenAuditLog {
  return {
    async append(content) {
      try {
        const seq = await log.append(content)
        health.set('audit-failing')
        return seq
      } catch (thrown) {
        health.set('audit-failing', asError(thrown).message)
        throw thrown
      }
    },
    get head() {
      return log.head
    },
    close: log.close,
    [asyncDispose]: log.close,
  }
}

/** The methods are bound, so that programs can destructure a log. */
class AuditLog implements OpenAuditLog {
  readonly #writer: AuditWriter
  readonly #onRecord: AuditLogOptions['onRecord']
  readonly #lock: Lock
  #waiting: Entry[] = []
  #isWriting = false
  /** The error for every further record, once the log is closed. */
  #failure: Error | undefined
  /** True if the last write failed. */
  #isBroken = false
  #closing: Promise<void> | undefined

  constructor(writer: AuditWriter, onRecord: AuditLogOptions['onRecord'], lock: Lock) {
    this.#writer = writer
    this.#onRecord = onRecord
    this.#lock = lock
  }

  async start(): Promise<this> {
    const { cut } = this.#writer
    await this.append({ type: 'start', ...(cut === undefined ? {} : { cut }) })
    return this
  }

  get head(): AuditHead {
    return this.#writer.head
  }

  readonly append = (content: AuditContent): Promise<number> => {
    if (this.#failure !== undefined) return Promise.reject(this.#failure)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...draftOf(content), resolve, reject })
      if (!this.#isWriting) void this.#writeAll()
    })
  }

  readonly close = (): Promise<void> => {
    this.#closing ??= this.#close()
    return this.#closing
  }

  readonly [asyncDispose] = this.close

  async #close(): Promise<void> {
    try {
      if (this.#failure === undefined) await this.append({ type: 'stop' })
    } finally {
      this.#failure ??= new DataStreamsError('the audit log was closed', { code: 'CLOSED' })
      await this.#writer.close()
      this.#lock.release()
    }
  }

  async #writeAll(): Promise<void> {
    const writer = this.#writer
    this.#isWriting = true
    // Records that arrive while a batch is written form the next batch. So many requests share a
    // write.
    while (this.#waiting.length > 0 && this.#failure === undefined) {
      const batch = this.#waiting
      this.#waiting = []
      try {
        if (this.#isBroken) await writer.recover()
        this.#isBroken = false
        if (writer.isFull()) batch.unshift(rotated(await writer.rotate()))
        const lines = await writer.write(batch)
        for (const [index, { resolve, reject }] of batch.entries()) {
          const { line, head } = lines[index] as Written
          this.#notify(line, head).then(() => resolve(head.seq), reject)
        }
      } catch (thrown) {
        this.#isBroken = true
        for (const { reject } of batch) reject(thrown as Error)
      }
    }
    for (const { reject } of this.#waiting.splice(0)) reject(this.#failure as Error)
    this.#isWriting = false
  }

  async #notify(line: string, head: AuditHead): Promise<void> {
    if (this.#onRecord === undefined) return
    const late = (): Error =>
      auditError(`onRecord has not answered for record ${head.seq} within ${MAX_NOTICE} ms`)
    const tell = async (): Promise<unknown> => this.#onRecord?.(line, head)
    try {
      await withTimeout(MAX_NOTICE, late, signal => abortable(tell(), signal))
    } catch (thrown) {
      throw isStreamsError(thrown, 'AUDIT')
        ? thrown
        : auditError(`onRecord failed for record ${head.seq}`)
    }
  }
}

/** The first record of a file after a rotation. No caller waits for it. */
function rotated(after: string): Entry {
  const none = (): void => undefined
  return { ...draftOf({ type: 'rotate', after }), resolve: none, reject: none }
}

function draftOf(content: AuditContent): Draft {
  return { content, time: new Date().toISOString() }
}
