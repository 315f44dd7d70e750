import {
  checkFunction,
  checkNumber,
  checkOptions,
  checkText,
  DataStreamsError,
  isStreamsError,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import {
  asyncDispose,
  codeOf,
  createPermissions,
  type PermissionOptions,
  permissionRules,
  takeLock,
} from 'sluice/internal'
import { type AuditContent, type AuditHead, auditError } from './record.js'
import { type Draft, openWriter, type Writer, type Written } from './writer.js'

/** Options of `openAuditLog`. */
export interface AuditLogOptions extends PermissionOptions {
  /** The file that records are appended to. It is made, for its owner alone, if it is not there. */
  readonly file: string
  /**
   * Called with each record, in order, when it is in the file: sends it elsewhere. Who has the latest head can say whether
   * records were removed. A request waits for a promise that it returns, for 5 s at most, and is not made if it throws.
   */
  readonly onRecord?: (line: string, head: AuditHead) => unknown
  /** The size of a file, in bytes, from which on it is renamed, and another begun. @default 67108864 */
  readonly maxBytes?: number
  /**
   * When records are on the disk and not only with the system: before the request goes on (`each`), or whenever the system
   * writes them (`never`), which a power failure shows. @default 'each'
   */
  readonly fsync?: 'each' | 'never'
}

const names: OptionNames<AuditLogOptions> = {
  ...permissionRules,
  file: true,
  onRecord: true,
  maxBytes: true,
  fsync: true,
}

/** An audit log in a file. */
export interface OpenAuditLog extends AsyncDisposable {
  /** Resolves with the number of the record when it is as durable as it will be; rejects if it can't be written. */
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
/** The smallest size of a file. */
const MIN_BYTES = 4096

/**
 * Opens an audit log, checks the file that it goes on with, and writes that it starts. Each record names the hash of the one
 * before. One process writes it at a time. While it can't be written it rejects records, and tries again with each.
 */
export async function openAuditLog(options: AuditLogOptions): Promise<OpenAuditLog> {
  const given = checkOptions('openAuditLog', options, names)
  const file = checkText('file', given.file)
  const { onRecord, fsync = 'each' } = given
  const maxBytes = checkNumber('maxBytes', given.maxBytes ?? 67_108_864, {
    min: MIN_BYTES,
    whole: true,
  })
  if (onRecord !== undefined) checkFunction('onRecord', onRecord)
  if (fsync !== 'each' && fsync !== 'never')
    throw new ValidationError("fsync must be 'each' or 'never'")
  const isSynced = fsync === 'each'
  const permissions = createPermissions(given)
  const lock = await takeLock(`${file}.lock`).catch(thrown => {
    throw auditError(`${file}.lock can't be written: ${codeOf(thrown)}`)
  })
  if (typeof lock === 'string')
    throw auditError(
      `${file} is written by another process, which an audit log has one of: ${lock}`,
    )
  try {
    const writer = await openWriter(file, { maxBytes, isSynced, permissions })
    return await createLog(writer, onRecord, lock.release).catch(async thrown => {
      await writer.close()
      throw thrown
    })
  } catch (thrown) {
    lock.release()
    throw thrown
  }
}

async function createLog(
  writer: Writer,
  onRecord: AuditLogOptions['onRecord'],
  unlock: () => void,
): Promise<OpenAuditLog> {
  const { cut } = writer
  let waiting: Entry[] = []
  let isWriting = false
  /** The log was closed. */
  let failure: Error | undefined
  /** The last write has failed. */
  let isBroken = false
  let closing: Promise<void> | undefined

  async function writeAll(): Promise<void> {
    isWriting = true
    // What comes while a batch is written is the next one: many requests share a write.
    while (waiting.length > 0 && failure === undefined) {
      const batch = waiting
      waiting = []
      try {
        if (isBroken) await writer.recover()
        isBroken = false
        if (writer.isFull()) batch.unshift(rotated(await writer.rotate()))
        const lines = await writer.write(batch)
        for (const [index, { resolve, reject }] of batch.entries()) {
          const { line, head } = lines[index] as Written
          notify(line, head).then(() => resolve(head.seq), reject)
        }
      } catch (thrown) {
        isBroken = true
        for (const { reject } of batch) reject(thrown as Error)
      }
    }
    for (const { reject } of waiting.splice(0)) reject(failure as Error)
    isWriting = false
  }

  /** The record that begins a file: nobody waits for it. */
  function rotated(after: string): Entry {
    const none = (): void => undefined
    return { ...draftOf({ type: 'rotate', after }), resolve: none, reject: none }
  }

  async function notify(line: string, head: AuditHead): Promise<void> {
    if (onRecord === undefined) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_resolve, reject) => {
      const rule = `onRecord has not answered for record ${head.seq} within ${MAX_NOTICE} ms`
      timer = setTimeout(() => reject(auditError(rule)), MAX_NOTICE)
    })
    try {
      await Promise.race([onRecord(line, head), late])
    } catch (thrown) {
      throw isStreamsError(thrown, 'AUDIT')
        ? thrown
        : auditError(`onRecord failed for record ${head.seq}`)
    } finally {
      clearTimeout(timer)
    }
  }

  function add(content: AuditContent): Promise<number> {
    if (failure !== undefined) return Promise.reject(failure)
    return new Promise((resolve, reject) => {
      waiting.push({ ...draftOf(content), resolve, reject })
      if (!isWriting) void writeAll()
    })
  }

  async function close(): Promise<void> {
    try {
      if (failure === undefined) await add({ type: 'stop' })
    } finally {
      failure ??= new DataStreamsError('the audit log was closed', { code: 'CLOSED' })
      await writer.close()
      unlock()
    }
  }

  await add({ type: 'start', ...(cut === undefined ? {} : { cut }) })
  return {
    get head() {
      return writer.head
    },
    append: add,
    close: () => (closing ??= close()),
    [asyncDispose]: () => (closing ??= close()),
  }
}

function draftOf(content: AuditContent): Draft {
  return { content, time: new Date().toISOString() }
}
