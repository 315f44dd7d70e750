import { createHash } from 'node:crypto'
import { DataStreamsError, type ErrorFacts } from 'sluice/core'

/** The error if a record can't be written, or if an audit log was altered. */
export class AuditError extends DataStreamsError {
  /** Initially false: a request that can't be recorded is not sent. */
  declare readonly mayHaveBeenSent: boolean

  constructor(message: string, facts: Omit<ErrorFacts, 'code'> = {}) {
    super(message, { ...facts, code: 'AUDIT' })
    this.mayHaveBeenSent = false
  }

  static {
    AuditError.prototype.name = 'AuditError'
  }
}

/*
 * An audit log is a file of lines, each a record in JSON:
 *
 *   {"seq":2,"time":"2027-01-31T10:00:00.000Z","previous":"…","type":"request",…}
 *
 * `seq` counts from 1 on, through all files of a log. `previous` is the SHA-256 of the previous
 * line without its line break, as hexadecimal digits; 64 zeros in the first record. A head is the
 * number and the hash of the last line. It authenticates all lines before it.
 */

/** The number and the hash of a record. */
export interface AuditHead {
  /** The number of the record. */
  readonly seq: number
  /** The SHA-256 of its line, 64 hexadecimal digits. */
  readonly hash: string
}

/** A line that was cut off because the process or the machine ended while it was being written. */
export interface AuditCut {
  /** The position of the line's first byte in the file. */
  readonly at: number
  /** How many bytes of the line were written. */
  readonly bytes: number
  /** The SHA-256 of the bytes that were written, as hexadecimal digits. */
  readonly sha256: string
}

/**
 * The content of a record. The log itself writes three types:
 *
 * - `start`, with `cut` if the previous line has no end;
 * - `rotate`, the first record of a file; `after` is the new name of the previous file;
 * - `stop`. A log that does not end with it was cut off, or its process is running.
 */
export interface AuditContent {
  /** The type of the record. */
  readonly type: string
  /** The facts that the type has. */
  readonly [fact: string]: unknown
}

/** A record of an audit log. */
export interface AuditRecord extends AuditContent {
  /** The number of the record: from 1 on, through all files of a log. */
  readonly seq: number
  /** The time of the record, in ISO 8601. */
  readonly time: string
  /** The hash of the previous record. */
  readonly previous: string
  /** For a `start` only: the previous line, if it has no end. */
  readonly cut?: AuditCut
  /** For an `answer` only: the number of its request. */
  readonly request?: number
  /** For a `change` of a vault only: the number of the change. */
  readonly change?: number
}

/** The head before the first record. */
export const NO_HEAD: AuditHead = { seq: 0, hash: '0'.repeat(64) }

/** The longest line, in bytes. */
export const MAX_LINE = 16_384

/** The line of a record, without its line break. */
export function formatRecord(content: AuditContent, time: string, before: AuditHead): string {
  return JSON.stringify({ seq: before.seq + 1, time, previous: before.hash, ...content })
}

/** The SHA-256 of bytes, as hexadecimal digits. */
export function hashOf(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Reads a line. Returns undefined if the line is not a record. */
export function parseRecord(line: Uint8Array): AuditRecord | undefined {
  try {
    const record = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(line))
    const { seq, time, previous, type } = record ?? {}
    const isRecord =
      Number.isSafeInteger(seq) &&
      typeof time === 'string' &&
      typeof previous === 'string' &&
      typeof type === 'string'
    return isRecord ? record : undefined
  } catch {
    return undefined
  }
}

/** An error of an audit log. */
export function auditError(rule: string, cause?: unknown): AuditError {
  return new AuditError(rule, cause === undefined ? {} : { cause })
}
