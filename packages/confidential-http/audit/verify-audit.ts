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

/** Up to where a log was verified: all that it takes to go on from there. */
export interface AuditPlace extends AuditHead {
  /** The number that the file of the record has, or will have once it is full. */
  readonly file: number
  /** The place of the record's first byte in it. */
  readonly at: number
  /** The requests without an answer until then. */
  readonly unanswered: readonly number[]
}

/** Options of `verifyAudit`. */
export interface VerifyAuditOptions {
  /**
   * A head that `onRecord` or an earlier `verifyAudit` gave, and that was stored elsewhere: the log
   * must have that record.
   */
  readonly head?: AuditHead
  /**
   * The number of the record that the log begins with; more than 1 where its oldest files are
   * elsewhere. @default 1
   */
  readonly first?: number
  /**
   * The `place` that an earlier `verifyAudit` gave: what comes before it is not read again.
   * @default all is read
   */
  readonly from?: AuditPlace
  /**
   * Of the log of a vault: the number of its last change, so that it is found where that has no
   * record. @default not known
   */
  readonly lastChange?: number
}

const schema = {
  head: optional(checkHead),
  first: withDefault(1, number({ min: 1, whole: true })),
  from: optional(checkPlace),
  lastChange: optional(number({ min: 0, whole: true })),
} satisfies Schema<VerifyAuditOptions>

/** What `verifyAudit` finds. */
export interface VerifiedAudit extends Omit<AuditReading, 'openEnd' | 'last'> {
  /** The files that were read, the oldest first. */
  readonly files: readonly string[]
  /** Up to where the log was verified, for the next time; undefined for a log without records. */
  readonly place?: AuditPlace
}

/**
 * A writer may be in the midst of a line, of a rotation, or of taking a failed write back: so often
 * it is looked at again, after so many milliseconds and more.
 */
const ATTEMPTS = 8
const DELAY = 5

/**
 * Verifies that each record of an audit log, with the files of past rotations, follows the one
 * before. Rejects with EnclaveError (`AUDIT`), which names the line that does not, and where the
 * log does not begin with record `first`. Records that were removed from the end are found with
 * `head` or `from` alone. A log without records, whose head has the number 0, is one that ended
 * before it began. The log may be written meanwhile.
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
      // What a writer has done meanwhile looks otherwise a moment later; an open end is complete
      // then.
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

/** A file of a log. */
interface OpenFile {
  readonly path: string
  /** The number that it has, or will have. */
  readonly number: number
  readonly handle: FileHandle
}

class OpenEnd extends Error {}

/**
 * Opens the files of a log from a place on, all at one moment: none is renamed between the first
 * and the last.
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
      // It was moved away between the two.
      if (codeOf(thrown) !== 'ENOENT' || attempt === 100) throw thrown
      continue
    }
    for (const { handle } of opened) await handle.close()
  }
}

/** Whether the file that is written is the one that was opened. */
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
