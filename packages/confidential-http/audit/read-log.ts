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

/** The result of reading a log. */
export interface AuditReading {
  /** The last record. */
  readonly head: AuditHead
  /** The number of the first record. It is more than 1 if earlier files were moved away. */
  readonly first: number
  /**
   * The requests without an answer. They are still running, or were running when the enclave ended.
   */
  readonly unanswered: readonly number[]
  /**
   * The changes of a vault, after the first recorded one, that have no record. Their processes
   * ended before they wrote the record, or are about to write it.
   */
  readonly unrecorded: readonly number[]
  /** The cut lines, each named by a later `start`. */
  readonly cuts: readonly (AuditCut & { readonly file: string })[]
  /** The last line, if it has no end. */
  readonly openEnd?: AuditCut & { readonly file: string }
  /** True if the last record says that the log was closed. */
  readonly isStopped: boolean
  /** The file of the last record, and the position of the record in that file. */
  readonly last?: { readonly file: string; readonly at: number }
}

/** Past files have lower numbers than this. At the default file size, they can hold 64 TB. */
const MAX_FILES = 1_000_000

/**
 * The past files of a log, the oldest first, and the number of the next file. Throws if a past file
 * has a number that no rotation can have made.
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
  /** The position of the line's first byte in the file. */
  readonly at: number
  /** True if a line break follows. */
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

/**
 * The source of a file's bytes. `handle` is the opened file, which may have another name by now;
 * `start` is the first byte to read.
 */
export interface Source {
  readonly handle?: FileHandle
  readonly start?: number
}

/** Reads logs, file by file. */
export interface AuditReader {
  /**
   * Reads a file. Throws AuditError (`AUDIT`) at the first line that does not follow the previous
   * one.
   */
  read(file: string, from?: Source): Promise<void>
  reading(): AuditReading
}

/**
 * Makes a reader that checks each line against the previous one. The log must contain the heads
 * `seen`, which were stored elsewhere. `before` lists the requests without an answer so far.
 * `lastChange` is the number of the vault's last change.
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
  /**
   * The changes that were recoveries. A recovery skips numbers, because the vault was restored from
   * a backup.
   */
  const recoveries = new Set<number>()
  const cuts: (AuditCut & { readonly file: string })[] = []

  async function read(file: string, from?: Source): Promise<void> {
    if (openEnd !== undefined) throw auditError(`${openEnd.file} ends in the midst of a line`)
    let number = 0
    /**
     * The error for the previous line if it is not a valid record. Only a `start` that names that
     * line may follow.
     */
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

  /** The reason why a record can't follow the head; undefined if it can. */
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
 * The whole numbers that are missing between the least and the greatest of `numbers`, or up to
 * `last`. The gap right before a number of `after` is skipped. Returns at most the first thousand.
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
