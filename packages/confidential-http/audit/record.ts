import { createHash } from 'node:crypto'
import { DataStreamsError, type ErrorFacts } from 'sluice/core'

/** A record can't be written, or an audit log is not what was written. */
export class AuditError extends DataStreamsError {
  /** What can't be recorded is not done. */
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
 * `seq` counts from 1 on, through all files of a log. `previous` is the SHA-256 of the line before, without its line break, as
 * hexadecimal digits; 64 zeros in the first record. So a head, the number and the hash of the last line, stands for all lines
 * before it.
 */

/** The number and the hash of a record. */
export interface AuditHead {
  /** The number of the record. */
  readonly seq: number
  /** The SHA-256 of its line, 64 hexadecimal digits. */
  readonly hash: string
}

/** Where a line was cut off, when the process or the machine ended in the midst of writing it. */
export interface AuditCut {
  /** The place of its first byte in the file. */
  readonly at: number
  /** How many of its bytes are there. */
  readonly bytes: number
  /** Of the bytes that are there. */
  readonly sha256: string
}

/**
 * What a record says. The log itself writes `start` (with `cut`, the line before, if it has no
 * end), `rotate` (the first record of a file, after the one that has the name `after` now), and
 * `stop`; a log that ends otherwise was cut off, or its process runs.
 */
export interface AuditContent {
  /** What it is of. */
  readonly type: string
  /** The facts of its type. */
  readonly [fact: string]: unknown
}

/** A record of an audit log. */
export interface AuditRecord extends AuditContent {
  /** From 1 on, through all files of a log. */
  readonly seq: number
  /** In ISO 8601. */
  readonly time: string
  /** The hash of the record before. */
  readonly previous: string
  /** Of a `start`: the line before, if it has no end. */
  readonly cut?: AuditCut
  /** Of an `answer`: the number of its request. */
  readonly request?: number
  /** Of a `change` of a vault: its number. */
  readonly change?: number
}

/** The hash of no record, which the first one follows. */
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

/** Reads a line; undefined if it is no record. */
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
