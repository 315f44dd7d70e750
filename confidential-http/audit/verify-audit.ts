import { existsSync } from 'node:fs'
import { ValidationError } from '../../core/errors.js'
import {
  checkNumber,
  checkObject,
  checkOptions,
  checkText,
  type OptionNames,
} from '../../core/options.js'
import { type AuditReading, createAuditReader, filesOf } from './read-log.js'
import { type AuditHead, auditError } from './record.js'

/** Options of `verifyAudit`. */
export interface VerifyAuditOptions {
  /** A head that `onRecord` or an earlier `verifyAudit` gave, and that was stored elsewhere: the log must have that record. */
  readonly head?: AuditHead
  /** The number of the record that the log begins with; more than 1 where its oldest files are elsewhere. @default 1 */
  readonly first?: number
}

const names: OptionNames<VerifyAuditOptions> = { head: true, first: true }

/** What `verifyAudit` finds. */
export interface VerifiedAudit extends Omit<AuditReading, 'openEnd'> {
  /** The files that were read, the oldest first. */
  readonly files: readonly string[]
}

/**
 * Verifies that each record of an audit log, with the files of past rotations, follows the one before. Rejects with EnclaveError
 * (`AUDIT`), which names the line that does not, and where the log does not begin with record `first`. Records that were removed
 * from the end are found with `head` alone. A log without records, whose head has the number 0, is one that ended before it began.
 */
export async function verifyAudit(
  file: string,
  options: VerifyAuditOptions = {},
): Promise<VerifiedAudit> {
  const { head: seen, first = 1 } = checkOptions('verifyAudit', options, names)
  if (seen !== undefined) checkHead(seen)
  checkNumber('first', first, { min: 1, whole: true })
  const { past } = filesOf(checkText('file', file))
  const files = [...past, ...(existsSync(file) ? [file] : [])]
  if (files.length === 0) throw new ValidationError(`${file} is not there`)
  const reader = createAuditReader(seen)
  for (const each of files) await reader.read(each)
  const { openEnd, ...reading } = reader.reading()
  if (openEnd !== undefined)
    throw auditError(
      `${openEnd.file} ends in the midst of a line, which begins at byte ${openEnd.at}: an enclave writes now, or was ended while it wrote, which its next start records`,
    )
  const { head } = reading
  const isEmpty = head.seq === 0
  if (seen !== undefined && seen.seq > head.seq)
    throw auditError(
      `${file} ${isEmpty ? 'is empty' : `ends with record ${head.seq}`}, and record ${seen.seq} was seen: records were removed from the end`,
    )
  if (isEmpty && first > 1)
    throw auditError(`${file} is empty, and should begin with record ${first}`)
  if (reading.first !== first)
    throw auditError(
      `${files[0]} begins with record ${reading.first}, and should with ${first}: records were removed from the beginning. If they are elsewhere, say first: ${reading.first} (--first ${reading.first})`,
    )
  if (seen !== undefined && seen.seq < first)
    throw auditError(
      `${file} begins with record ${first}, behind the one that was seen, ${seen.seq}`,
    )
  return { files, ...reading }
}

function checkHead(head: AuditHead): void {
  const { seq, hash } = checkObject('head', head)
  checkNumber('head.seq', seq, { min: 1, whole: true })
  if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/.test(hash))
    throw new ValidationError('head.hash must be 64 hexadecimal digits, in lower case')
}
