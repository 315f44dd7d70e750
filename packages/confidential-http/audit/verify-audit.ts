import { existsSync } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import {
  type Checked,
  checkNumber,
  checkText,
  isStreamsError,
  number,
  optional,
  readOptions,
  type Schema,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { checkObject, codeOf } from 'sluice/internal'
import { type AuditReading, createAuditReader, filesOf } from './read-log.js'
import { type AuditHead, auditError } from './record.js'

/** The place up to which a log was verified. The next verification can continue from there. */
export interface AuditPlace extends AuditHead {
  /**
   * The number of the file with the last record. The current file gets its number once it is full.
   */
  readonly file: number
  /** The position of the record's first byte in that file. */
  readonly at: number
  /** The requests without an answer up to this record. */
  readonly unanswered: readonly number[]
}

/** Options of `verifyAudit`. */
export interface VerifyAuditOptions {
  /**
   * A head from `onRecord` or from an earlier `verifyAudit`, stored elsewhere. The log must contain
   * that record.
   */
  readonly head?: AuditHead
  /**
   * The number of the record that the log begins with. It is more than 1 if the oldest files were
   * moved elsewhere. @default 1
   */
  readonly first?: number
  /**
   * The `place` from an earlier `verifyAudit`. Records before it are not read again.
   * @default all is read
   */
  readonly from?: AuditPlace
  /**
   * For the log of a vault: the number of the vault's last change. It shows whether the last
   * changes have no record. @default not known
   */
  readonly lastChange?: number
}

const schema = {
  head: optional(checkHead),
  first: withDefault(1, number({ min: 1, whole: true })),
  from: optional(checkPlace),
  lastChange: optional(number({ min: 0, whole: true })),
} satisfies Schema<VerifyAuditOptions>

/** The result of `verifyAudit`. */
export interface VerifiedAudit extends Omit<AuditReading, 'openEnd' | 'last'> {
  /** The files that were read, the oldest first. */
  readonly files: readonly string[]
  /**
   * The place up to which the log was verified, for the next verification. Undefined for a log
   * without records.
   */
  readonly place?: AuditPlace
}

/**
 * The most attempts to read a log. A log that is being written can look wrong: its writer may be in
 * the middle of a line or a rotation, or may be undoing a failed write.
 */
const ATTEMPTS = 8
/** The base of the delay between two attempts, in milliseconds. The delay doubles each time. */
const DELAY = 5

/**
 * Verifies that each record of an audit log follows the previous one, including the files of past
 * rotations. Rejects with AuditError (`AUDIT`) if a record does not follow, and names its line.
 * Also rejects if the log does not begin with record `first`.
 *
 * Records that were removed from the end are found only if `head` or `from` is given. A log without
 * records has a head with the number 0: its process ended before the first record. The log may be
 * written during the verification.
 */
export async function verifyAudit(
  file: string,
  options: VerifyAuditOptions = {},
): Promise<VerifiedAudit> {
  const wanted = readOptions('verifyAudit', options, schema)
  checkText('file', file)
  let before = ''
  let isWritten = false
  for (let attempt = 1; ; attempt++) {
    const files = await openFiles(file, wanted.from)
    try {
      return await readFiles(file, files, wanted)
    } catch (thrown) {
      // A moment later a writer has finished its change, and the log looks different. An open end
      // is complete then.
      const isOpen = thrown instanceof OpenEnd
      if (!isOpen && !isStreamsError(thrown, 'AUDIT')) throw thrown
      const { message } = thrown as Error
      isWritten = existsSync(`${file}.lock`)
      const isSure = message === before && !(isOpen && isWritten)
      if (isSure || attempt === ATTEMPTS) throw isOpen ? auditError(message) : thrown
      before = message
    } finally {
      for (const { handle } of files) await handle.close()
    }
    if (isWritten) await pause(DELAY * 2 ** attempt)
  }
}

/** A file of a log, opened for reading. */
interface OpenFile {
  readonly path: string
  /** The number that the file has, or will have once it is full. */
  readonly number: number
  readonly handle: FileHandle
}

class OpenEnd extends Error {}

/**
 * Opens the files of a log from a place on. If a file is renamed between the first and the last
 * one, all are opened again.
 */
async function openFiles(file: string, from: AuditPlace | undefined): Promise<readonly OpenFile[]> {
  for (let attempt = 1; ; attempt++) {
    const { past, next } = filesOf(file)
    const opened: OpenFile[] = []
    try {
      const numbered = past.map(path => [path, Number(path.slice(file.length + 1))] as const)
      for (const [path, number] of [...numbered, [file, next] as const]) {
        if (number < (from?.file ?? 0)) continue
        const handle = await open(path, 'r').catch(thrown => {
          if (codeOf(thrown) === 'ENOENT' && path === file) return undefined
          throw thrown
        })
        if (handle !== undefined) opened.push({ path, number, handle })
      }
      const now = filesOf(file)
      if (
        now.next === next &&
        now.past.length === past.length &&
        (await isNamed(file, opened.at(-1)))
      ) {
        if (opened.length > 0) return opened
        throw new ValidationError(`${file} is not there`)
      }
      if (attempt === 100) throw auditError(`${file} is renamed all the time`)
    } catch (thrown) {
      for (const { handle } of opened) await handle.close()
      // The file was moved between the listing and the opening.
      if (codeOf(thrown) !== 'ENOENT' || attempt === 100) throw thrown
      continue
    }
    for (const { handle } of opened) await handle.close()
  }
}

/** True if the file at the log's path is the one that was opened. */
async function isNamed(file: string, last: OpenFile | undefined): Promise<boolean> {
  const named = await stat(file, { bigint: true }).catch(() => undefined)
  if (last?.path !== file) return named === undefined
  const { ino, dev } = await last.handle.stat({ bigint: true })
  return named?.ino === ino && named.dev === dev
}

async function readFiles(
  file: string,
  files: readonly OpenFile[],
  { head: seen, first, from, lastChange }: Checked<typeof schema>,
): Promise<VerifiedAudit> {
  const reader = createAuditReader(
    [seen, from].filter(each => each !== undefined),
    from?.unanswered,
    lastChange,
  )
  for (const { path, number, handle } of files)
    await reader.read(path, { handle, start: number === from?.file ? from.at : 0 })
  const { openEnd, last, ...reading } = reader.reading()
  if (openEnd !== undefined)
    throw new OpenEnd(
      `${openEnd.file} ends in the midst of a line, which begins at byte ${openEnd.at}: an enclave writes now, or was ended while it wrote, which its next start records`,
    )
  const { head, unanswered } = reading
  const isEmpty = head.seq === 0
  for (const known of [seen, from])
    if (known !== undefined && known.seq > head.seq)
      throw auditError(
        `${file} ${isEmpty ? 'is empty' : `ends with record ${head.seq}`}, and record ${known.seq} was seen: records were removed from the end`,
      )
  if (isEmpty && first > 1)
    throw auditError(`${file} is empty, and should begin with record ${first}`)
  const begin = from?.seq ?? first
  if (reading.first !== begin)
    throw auditError(
      from === undefined
        ? `${files[0]?.path} begins with record ${reading.first}, and should with ${first}: records were removed from the beginning. If they are elsewhere, say first: ${reading.first} (--first ${reading.first})`
        : `${files[0]?.path} has record ${reading.first} where record ${from.seq} was: the log is another`,
    )
  if (seen !== undefined && seen.seq < begin)
    throw auditError(
      `${file} begins with record ${begin}, behind the one that was seen, ${seen.seq}`,
    )
  const of = files.find(({ path }) => path === last?.file)
  return {
    files: files.map(({ path }) => path),
    ...reading,
    ...(last === undefined || of === undefined
      ? {}
      : { place: { ...head, file: of.number, at: last.at, unanswered } }),
  }
}

function checkHead(field: string, value: unknown): AuditHead {
  const head = checkObject(field, value as AuditHead)
  checkNumber(`${field}.seq`, head.seq, { min: 1, whole: true })
  if (typeof head.hash !== 'string' || !/^[0-9a-f]{64}$/.test(head.hash))
    throw new ValidationError(`${field}.hash must be 64 hexadecimal digits, in lower case`)
  return head
}

function checkPlace(field: string, value: unknown): AuditPlace {
  const place = checkHead(field, value) as AuditPlace
  checkNumber(`${field}.file`, place.file, { min: 1, whole: true })
  checkNumber(`${field}.at`, place.at, { min: 0, whole: true })
  if (!Array.isArray(place.unanswered) || !place.unanswered.every(Number.isSafeInteger))
    throw new ValidationError(`${field}.unanswered must be a list of numbers`)
  return place
}
