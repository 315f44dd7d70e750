import { createHash } from 'node:crypto'
import type { AuditEvent } from '../../plugins/confidential-http/audit.js'
import { EnclaveError } from '../../plugins/confidential-http/errors.js'

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

/** What a record says: of a request, or of the log itself. */
export type AuditContent =
  | AuditEvent
  /** An enclave began to write. `cut` is the line before, if it has no end. */
  | { readonly type: 'start'; readonly cut?: AuditCut }
  /** The first record of a file, after the one that has this name now. */
  | { readonly type: 'rotate'; readonly after: string }
  /** The enclave was closed. A log that ends otherwise was cut off, or its enclave runs. */
  | { readonly type: 'stop' }

/** A record of an audit log. */
export type AuditRecord = AuditContent & {
  /** From 1 on, through all files of a log. */
  readonly seq: number
  /** In ISO 8601. */
  readonly time: string
  /** The hash of the record before. */
  readonly previous: string
}

/** Before the first record. */
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
export function auditError(rule: string, cause?: unknown): EnclaveError {
  const facts = { code: 'AUDIT', mayHaveBeenSent: false } as const
  return new EnclaveError(rule, cause === undefined ? facts : { ...facts, cause })
}
