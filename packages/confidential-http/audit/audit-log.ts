import {
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
} from 'sluice/core'
import {
  asyncDispose,
  codeOf,
  createPermissions,
  type Lock,
  type PermissionOptions,
  permissionRules,
  takeLock,
} from 'sluice/internal'
import { type AuditContent, type AuditHead, auditError } from './record.js'
import { AuditWriter, type Draft, type Written } from './writer.js'

/** Options of `openAuditLog`. */
export interface AuditLogOptions extends PermissionOptions {
  /** The file that records are appended to. It is made, for its owner alone, if it is not there. */
  readonly file: string
  /**
   * Called with each record, in order, when it is in the file: sends it elsewhere. Who has the
   * latest head can say whether records were removed. A request waits for a promise that it
   * returns, for 5 s at most, and is not made if it throws.
   */
  readonly onRecord?: (line: string, head: AuditHead) => unknown
  /**
   * The size of a file, in bytes, from which on it is renamed, and another begun. @default 67108864
   */
  readonly maxBytes?: number
  /**
   * When records are on the disk and not only with the system: before the request goes on (`each`),
   * or whenever the system writes them (`never`), which a power failure shows. @default 'each'
   */
  readonly fsync?: 'each' | 'never'
}

/** The smallest size of a file. */
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
   * Resolves with the number of the record when it is as durable as it will be; rejects if it can't
   * be written.
   */
  append(content: AuditContent): Promise<number>
  /** The last record: it stands for all before it. */
  readonly head: AuditHead
  /** Writes that the log was closed, and closes it. Idempotent. */
  close(): Promise<void>
}

interface Entry extends Draft {
  readonly resolve: (seq: number) => void
  readonly reject: (error: Error) => void
}

/** Milliseconds for which a record waits for `onRecord`. */
const MAX_NOTICE = 5000

/**
 * Opens an audit log, checks the file that it goes on with, and writes that it starts. Each record
 * names the hash of the one before. One process writes it at a time. While it can't be written it
 * rejects records, and tries again with each.
 */
export async function openAuditLog(options: AuditLogOptions): Promise<OpenAuditLog> {
  const { file, onRecord, maxBytes, fsync, insecurePermissions } = readOptions(
    'openAuditLog',
    options,
    schema,
  )
  const permissions = createPermissions({ insecurePermissions })
  const lock = await takeLock(`${file}.lock`).catch(thrown => {
    throw auditError(`${file}.lock can't be written: ${codeOf(thrown)}`)
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

/** The methods are bound, because programs take them apart. */
class AuditLog implements OpenAuditLog {
  readonly #writer: AuditWriter
  readonly #onRecord: AuditLogOptions['onRecord']
  readonly #lock: Lock
  #waiting: Entry[] = []
  #isWriting = false
  /** The log was closed. */
  #failure: Error | undefined
  /** The last write has failed. */
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
    // Records that come while a batch is written are the next batch: many requests share a write.
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
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_resolve, reject) => {
      const rule = `onRecord has not answered for record ${head.seq} within ${MAX_NOTICE} ms`
      timer = setTimeout(() => reject(auditError(rule)), MAX_NOTICE)
    })
    try {
      await Promise.race([this.#onRecord(line, head), late])
    } catch (thrown) {
      throw isStreamsError(thrown, 'AUDIT')
        ? thrown
        : auditError(`onRecord failed for record ${head.seq}`)
    } finally {
      clearTimeout(timer)
    }
  }
}

/** The record that begins a file: nobody waits for it. */
function rotated(after: string): Entry {
  const none = (): void => undefined
  return { ...draftOf({ type: 'rotate', after }), resolve: none, reject: none }
}

function draftOf(content: AuditContent): Draft {
  return { content, time: new Date().toISOString() }
}
