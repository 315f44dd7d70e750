import { createReadStream, readdirSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  type AuditCut,
  type AuditHead,
  auditError,
  hashOf,
  MAX_LINE,
  NO_HEAD,
  parseRecord,
} from './record.js'

/** What is read of a log. */
export interface AuditReading {
  /** The last record. */
  readonly head: AuditHead
  /** The number of the first record; more than 1 where earlier files were moved away. */
  readonly first: number
  /** The requests without an answer: they were under way when the enclave ended, or are. */
  readonly unanswered: readonly number[]
  /**
   * The changes of a vault from the first on that have no record: their processes ended before they
   * wrote it, or are about to.
   */
  readonly unrecorded: readonly number[]
  /** The cut lines that a later start names. */
  readonly cuts: readonly (AuditCut & { readonly file: string })[]
  /** The last line, if it has no end. */
  readonly openEnd?: AuditCut & { readonly file: string }
  /** Whether the last record is that of an enclave that was closed. */
  readonly isStopped: boolean
  /** The file of the last record, and its place there. */
  readonly last?: { readonly file: string; readonly at: number }
}

/** The largest number of a past file: 64 TB of them, at the usual size. */
const MAX_FILES = 1_000_000

/**
 * The past files of a log, the oldest first, and the number of the next. Throws for one that no
 * rotation can have made.
 */
export function filesOf(file: string): { readonly past: readonly string[]; readonly next: number } {
  const name = basename(file)
  const numbers = readdirSync(dirname(file))
    .flatMap(each => {
      const number = each.startsWith(`${name}.`) ? each.slice(name.length + 1) : ''
      return /^[1-9][0-9]*$/.test(number) ? [Number(number)] : []
    })
    .sort((a, b) => a - b)
  if ((numbers.at(-1) ?? 0) >= MAX_FILES)
    throw auditError(
      `${file}.${numbers.at(-1)} is no file of this log, or the last that it can have: they are numbered up to ${MAX_FILES - 1}. Move it away`,
    )
  return {
    past: numbers.map(number => join(dirname(file), `${name}.${number}`)),
    next: (numbers.at(-1) ?? 0) + 1,
  }
}

interface Line {
  readonly bytes: Uint8Array
  /** The place of its first byte. */
  readonly at: number
  /** Whether a line break follows. */
  readonly isWhole: boolean
}

async function* linesOf(file: string, from: Source = {}): AsyncGenerator<Line> {
  let rest: Buffer = Buffer.alloc(0)
  const { handle, start = 0 } = from
  let at = start
  const stream =
    handle === undefined
      ? createReadStream(file, { start })
      : handle.createReadStream({ start, autoClose: false })
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let begin = 0
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10, begin)) {
      yield { bytes: rest.subarray(begin, end), at: at + begin, isWhole: true }
      begin = end + 1
    }
    at += begin
    rest = rest.subarray(begin)
    if (rest.length > MAX_LINE)
      throw auditError(`${file}: a line of more than ${MAX_LINE} bytes begins at byte ${at}`)
  }
  if (rest.length > 0) yield { bytes: rest, at, isWhole: false }
}

/** Where a file is read, which may have another name by now, and from which byte on. */
export interface Source {
  readonly handle?: FileHandle
  readonly start?: number
}

/** Reads logs, file by file. */
export interface AuditReader {
  /** Reads a file; throws EnclaveError (`AUDIT`) at the first line that does not follow. */
  read(file: string, from?: Source): Promise<void>
  reading(): AuditReading
}

/**
 * Checks each line against the one before; `seen` are heads that were stored elsewhere, which the
 * log must have; `before` the requests without an answer so far; `lastChange` the last change of
 * the vault.
 */
export function createAuditReader(
  seen: readonly AuditHead[] = [],
  before: readonly number[] = [],
  lastChange = 0,
): AuditReader {
  let head = NO_HEAD
  let place: AuditReading['last']
  let first: number | undefined
  let last = ''
  let openEnd: AuditReading['openEnd']
  const unanswered = new Set(before)
  const changes = new Set<number>()
  /** Those before which numbers were left out, as a vault was put back from a backup. */
  const recoveries = new Set<number>()
  const cuts: (AuditCut & { readonly file: string })[] = []

  async function read(file: string, from?: Source): Promise<void> {
    if (openEnd !== undefined) throw auditError(`${openEnd.file} ends in the midst of a line`)
    let number = 0
    /** The line before: it is no record, so only a start that names it may follow. */
    let broken: string | undefined
    let before: AuditCut | undefined
    for await (const { bytes, at, isWhole } of linesOf(file, from)) {
      const where = `${file}, line ${++number}`
      const cut = { at, bytes: bytes.length, sha256: hashOf(bytes) }
      if (!isWhole) openEnd = { ...cut, file }
      const record = parseRecord(bytes)
      const wrong = record === undefined ? 'is no record' : whyWrong(record)
      if (record === undefined || wrong !== undefined) {
        if (broken !== undefined) throw auditError(broken)
        broken = `${where} ${wrong}`
        before = cut
        continue
      }
      const named = record.type === 'start' ? record.cut : undefined
      if (broken !== undefined && named === undefined) throw auditError(broken)
      if (named !== undefined) {
        if (
          named.at !== before?.at ||
          named.bytes !== before.bytes ||
          named.sha256 !== before.sha256
        )
          throw auditError(`${where} names a cut line that is not the one before`)
        cuts.push({ ...named, file })
      }
      broken = undefined
      before = cut
      first ??= record.seq
      head = { seq: record.seq, hash: cut.sha256 }
      last = record.type
      place = { file, at }
      if (record.type === 'request') unanswered.add(record.seq)
      if (record.type === 'change' && record.change !== undefined) {
        changes.add(record.change)
        if (record.act === 'recover') recoveries.add(record.change)
      }
      if (record.type === 'answer') unanswered.delete(record.request ?? 0)
      if (seen.some(({ seq, hash }) => seq === head.seq && hash !== head.hash))
        throw auditError(`${where}: record ${head.seq} is another than the one that was seen`)
    }
    if (broken !== undefined && openEnd === undefined) throw auditError(broken)
  }

  /** Why a record can't follow the head; undefined if it can. */
  function whyWrong({ seq, previous }: { seq: number; previous: string }): string | undefined {
    if (first === undefined && seq > 1) return undefined
    if (seq !== head.seq + 1) return `has the number ${seq}, and not ${head.seq + 1}`
    if (previous === head.hash) return undefined
    return 'does not follow the one before: that one was changed, or others were'
  }

  return {
    read,
    reading: () => ({
      head,
      first: first ?? 1,
      unanswered: [...unanswered],
      unrecorded: missingIn(changes, recoveries, lastChange),
      cuts,
      ...(openEnd === undefined ? {} : { openEnd }),
      isStopped: last === 'stop',
      ...(place === undefined ? {} : { last: place }),
    }),
  }
}

/**
 * The whole numbers from the least to the greatest, or to `last`, that are not among them, except
 * those right before one of `after`; of many the first thousand.
 */
function missingIn(
  numbers: ReadonlySet<number>,
  after: ReadonlySet<number>,
  last: number,
): number[] {
  const sorted = [...numbers].sort((one, other) => one - other)
  if (last > (sorted.at(-1) ?? last)) sorted.push(last + 1)
  const missing: number[] = []
  for (let at = 1; at < sorted.length && missing.length < 1000; at++)
    for (
      let number = after.has(sorted[at] ?? 0) ? Infinity : (sorted[at - 1] ?? 0) + 1;
      number < (sorted[at] ?? 0);
      number++
    )
      if (missing.length < 1000) missing.push(number)
      else break
  return missing
}
