import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { platform } from 'node:process'
import { feedResolution } from 'sluice/report'
import type { PublishedReport } from './ledger.js'
import type { CheckedRecord } from './replay.js'

/** A report of a replay, with what its recorder knew. */
export interface ReplayedReport extends PublishedReport {
  /** How the recorder got it: `live`, `backfill` or `request`. */
  readonly source: string
  /** The id of the origin that brought it to the recorder. */
  readonly originID: string | undefined
}

/** How reports of a recording are published. */
interface ArchiveOptions {
  /** Whether reports that the recorder had to fetch are streamed, too. */
  readonly streamMissed: boolean
  /** Milliseconds from the time of a report to its publication, if the recording does not tell. */
  readonly delayMs: number
}

/** The bytes that wait in memory until they are written to the file. */
const BUFFER = 1_048_576

/** Bytes that are appended once and read many times. More than a mebibyte of them is in a file. */
class Spool {
  readonly #path = join(tmpdir(), `sluice-replay-${randomBytes(8).toString('hex')}`)
  readonly #tail = Buffer.alloc(BUFFER)
  /** How many bytes are in the file, and in `#tail`. */
  #written = 0
  #waiting = 0
  #file: number | undefined

  get size(): number {
    return this.#written + this.#waiting
  }

  append(bytes: Uint8Array): void {
    if (this.#waiting + bytes.length > BUFFER) this.#flush()
    if (bytes.length > BUFFER) this.#write(bytes, bytes.length)
    else {
      this.#tail.set(bytes, this.#waiting)
      this.#waiting += bytes.length
    }
  }

  read(from: number, length: number): Buffer {
    const at = from - this.#written
    if (at >= 0) return this.#tail.subarray(at, at + length)
    const bytes = Buffer.alloc(length)
    readSync(this.#file as number, bytes, 0, length, from)
    return bytes
  }

  close(): void {
    if (this.#file === undefined) return
    closeSync(this.#file)
    if (platform === 'win32') unlinkSync(this.#path)
    this.#file = undefined
  }

  #flush(): void {
    this.#write(this.#tail, this.#waiting)
    this.#waiting = 0
  }

  #write(bytes: Uint8Array, length: number): void {
    if (this.#file === undefined) {
      this.#file = openSync(this.#path, 'wx+', 0o600)
      // The file has no name from here on, so a process that is killed leaves nothing behind.
      if (platform !== 'win32') unlinkSync(this.#path)
    }
    for (let at = 0; at < length; )
      at += writeSync(this.#file, bytes, at, length - at, this.#written + at)
    this.#written += length
  }
}

/** A list of numbers that grows, in a typed array. */
class Column<Numbers extends Float64Array | Uint32Array | Uint8Array> {
  values: Numbers
  length = 0
  readonly #grow: (size: number) => Numbers

  constructor(grow: (size: number) => Numbers) {
    this.#grow = grow
    this.values = grow(1024)
  }

  push(value: number): void {
    if (this.length === this.values.length) {
      const longer = this.#grow(2 * this.length)
      longer.set(this.values)
      this.values = longer
    }
    this.values[this.length++] = value
  }

  get(at: number): number {
    return this.values[at] as number
  }
}

const floats = (): Column<Float64Array> => new Column(size => new Float64Array(size))
const naturals = (): Column<Uint32Array> => new Column(size => new Uint32Array(size))

/** The texts of a column, each kept once. */
class Names {
  readonly all: string[] = []
  readonly #numbers = new Map<string, number>()

  numberOf(name: string): number {
    const known = this.#numbers.get(name)
    if (known !== undefined) return known
    this.#numbers.set(name, this.all.length)
    return this.all.push(name) - 1
  }
}

/** A report that is not lower-case hexadecimal is kept as text. */
const IS_TEXT = 1
const IS_STREAMED = 2

/** The first of the ascending indices from which on `isLater` is true. */
function firstOf(indices: Uint32Array, isLater: (index: number) => boolean): number {
  let low = 0
  let high = indices.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isLater(indices[middle] as number)) high = middle
    else low = middle + 1
  }
  return low
}

/** The indices from 0 on, in the order of a comparison. */
function sorted(
  indices: Uint32Array,
  compare: (one: number, other: number) => number,
): Uint32Array {
  const isSorted = indices.every(
    (index, at) => at === 0 || compare(indices[at - 1] as number, index) <= 0,
  )
  return isSorted ? indices : indices.sort(compare)
}

/**
 * A recording: an index in memory, and the signed reports in a temporary file. The index tells when
 * each report is published; REST answers from all that is published until a time.
 */
export class Archive {
  /** When the first and the last report are published, in ms. */
  begin: number = Number.POSITIVE_INFINITY
  end: number = Number.NEGATIVE_INFINITY
  /** How many reports are not sent to subscribers. REST has them. */
  unstreamed = 0
  readonly #spool = new Spool()
  readonly #feeds = new Names()
  readonly #sources = new Names()
  readonly #origins = new Names()
  /** The columns. A report has the same index in each of them. */
  readonly #offset = floats()
  readonly #from = floats()
  readonly #time = floats()
  /** When it is published, in ms; at first, when it was received. */
  readonly #at = floats()
  readonly #seqNr = floats()
  readonly #feed = naturals()
  /** The numbers of source and origin in one: source * 65536 + origin + 1. */
  readonly #way = naturals()
  readonly #flags: Column<Uint8Array> = new Column(size => new Uint8Array(size))
  /** The indices in the order of publication. */
  #order: Uint32Array = new Uint32Array()
  /** The indices of each feed, ascending by time. */
  readonly #byFeed = new Map<string, Uint32Array>()

  /** Reads a recording to its end. */
  static async read(
    records: AsyncIterable<CheckedRecord>,
    options: ArchiveOptions,
  ): Promise<Archive> {
    const archive = new Archive()
    try {
      for await (const record of records) archive.#add(record)
      archive.#finish(options)
      return archive
    } catch (thrown) {
      archive.close()
      throw thrown
    }
  }

  /** How many reports there are. */
  get length(): number {
    return this.#order.length
  }

  /** The ids of the feeds, in the order of their first reports. */
  get feeds(): readonly string[] {
    return this.#feeds.all
  }

  /** When a report is published, by its place in the order of publication. Infinity if none is. */
  publishedAt(place: number): number {
    const index = this.#order[place]
    return index === undefined ? Number.POSITIVE_INFINITY : this.#at.get(index)
  }

  /** Whether a report is sent to subscribers, by its place in the order of publication. */
  isStreamed(place: number): boolean {
    return (this.#flags.get(this.#order[place] as number) & IS_STREAMED) !== 0
  }

  /** The first place in the order of publication from a time on. */
  placeAt(ms: number): number {
    return firstOf(this.#order, index => this.#at.get(index) >= ms)
  }

  /** A report, by its place in the order of publication. */
  get(place: number): ReplayedReport {
    return this.#read(this.#order[place] as number)
  }

  /** The latest report of a feed that is published until a time. */
  latest(feedID: string, now: number): ReplayedReport | undefined {
    const indices = this.#byFeed.get(feedID) ?? new Uint32Array()
    for (let at = indices.length - 1; at >= 0; at--) {
      const index = indices[at] as number
      if (this.#at.get(index) <= now) return this.#read(index)
    }
    return undefined
  }

  /** The reports of a feed from `start` to `end`, ascending, that are published until a time. */
  page(feedID: string, start: number, limit: number, end: number, now: number): ReplayedReport[] {
    const indices = this.#byFeed.get(feedID) ?? new Uint32Array()
    const found: ReplayedReport[] = []
    const first = firstOf(indices, index => this.#time.get(index) >= start)
    for (let at = first; at < indices.length && found.length < limit; at++) {
      const index = indices[at] as number
      if (this.#time.get(index) > end) break
      if (this.#at.get(index) <= now) found.push(this.#read(index))
    }
    return found
  }

  close(): void {
    this.#spool.close()
  }

  #add(record: CheckedRecord): void {
    const { fullReport, source, originID, receivedAt } = record
    const isText = !/^0x(?:[0-9a-f]{2})*$/.test(fullReport)
    this.#offset.push(this.#spool.size)
    this.#spool.append(isText ? Buffer.from(fullReport) : Buffer.from(fullReport.slice(2), 'hex'))
    this.#from.push(record.validFromTimestamp)
    this.#time.push(record.observationsTimestamp)
    this.#at.push(receivedAt ?? Number.NaN)
    this.#seqNr.push(record.seqNr)
    this.#feed.push(this.#feeds.numberOf(record.feedID))
    const origin = originID === undefined ? 0 : this.#origins.numberOf(originID) + 1
    this.#way.push(this.#sources.numberOf(source) * 65_536 + origin)
    this.#flags.push(isText ? IS_TEXT : 0)
  }

  /** Decides when each report is published, and sorts the indices. */
  #finish({ streamMissed, delayMs }: ArchiveOptions): void {
    const { length } = this.#at
    const units = this.#feeds.all.map(feedID => (feedResolution(feedID) === 's' ? 1000 : 1))
    const observed = (index: number): number =>
      this.#time.get(index) * (units[this.#feed.get(index)] as number)
    const begins = this.#streamsBegin()
    for (let index = 0; index < length; index++) {
      const received = this.#at.get(index)
      const isFetched = this.#sourceOf(index) === 'backfill'
      // What was fetched from before the stream began, the stream had not missed.
      const isMissed =
        isFetched && this.#time.get(index) > (begins[this.#feed.get(index)] as number)
      const expected = observed(index) + delayMs
      // A fetched report was stored on time, and received when it was fetched.
      if (Number.isNaN(received)) this.#at.values[index] = expected
      else if (isFetched) this.#at.values[index] = Math.min(received, expected)
      const at = this.#at.get(index)
      this.begin = Math.min(this.begin, at)
      this.end = Math.max(this.end, at)
      if (!isMissed || streamMissed)
        this.#flags.values[index] = this.#flags.get(index) | IS_STREAMED
    }
    const isTwice = this.#sortFeeds(length)
    for (let index = 0; index < length; index++)
      if (!isTwice[index] && (this.#flags.get(index) & IS_STREAMED) === 0) this.unstreamed++
    const order = Uint32Array.from({ length }, (_, index) => index).filter(index => !isTwice[index])
    this.#order = sorted(
      order,
      (one, other) => this.#at.get(one) - this.#at.get(other) || one - other,
    )
  }

  /** The time of each feed's first report that a stream brought; Infinity if none did. */
  #streamsBegin(): readonly number[] {
    const begins = this.#feeds.all.map(() => Number.POSITIVE_INFINITY)
    for (let index = 0; index < this.#at.length; index++) {
      if (this.#sourceOf(index) === 'backfill') continue
      const feed = this.#feed.get(index)
      begins[feed] = Math.min(begins[feed] as number, this.#time.get(index))
    }
    return begins
  }

  /**
   * Sorts the reports of each feed by time. Returns which reports are in the recording twice, as a
   * recording that was continued may have them: only the first of them counts.
   */
  #sortFeeds(length: number): Uint8Array {
    const counts = new Uint32Array(this.#feeds.all.length)
    for (let index = 0; index < length; index++) {
      const feed = this.#feed.get(index)
      counts[feed] = (counts[feed] as number) + 1
    }
    const lists = Array.from(counts, count => new Uint32Array(count))
    counts.fill(0)
    for (let index = 0; index < length; index++) {
      const feed = this.#feed.get(index)
      const place = counts[feed] as number
      const list = lists[feed] as Uint32Array
      list[place] = index
      counts[feed] = place + 1
    }
    const isTwice = new Uint8Array(length)
    for (const [feed, list] of lists.entries()) {
      const byTime = sorted(
        list,
        (one, other) => this.#time.get(one) - this.#time.get(other) || one - other,
      )
      const once = byTime.filter(
        (index, at) =>
          at === 0 || this.#time.get(index) !== this.#time.get(byTime[at - 1] as number),
      )
      if (once.length < byTime.length) {
        for (const index of byTime) isTwice[index] = 1
        for (const index of once) isTwice[index] = 0
      }
      this.#byFeed.set(this.#feeds.all[feed] as string, once)
    }
    return isTwice
  }

  #sourceOf(index: number): string {
    return this.#sources.all[this.#way.get(index) >>> 16] as string
  }

  #read(index: number): ReplayedReport {
    const offset = this.#offset.get(index)
    const isLast = index + 1 === this.#offset.length
    const end = isLast ? this.#spool.size : this.#offset.get(index + 1)
    const bytes = this.#spool.read(offset, end - offset)
    const flags = this.#flags.get(index)
    return Object.freeze({
      feedID: this.#feeds.all[this.#feed.get(index)] as string,
      fullReport: flags & IS_TEXT ? bytes.toString() : `0x${bytes.toString('hex')}`,
      validFromTimestamp: this.#from.get(index),
      observationsTimestamp: this.#time.get(index),
      seqNr: this.#seqNr.get(index),
      publishedAt: this.#at.get(index),
      streamed: (flags & IS_STREAMED) !== 0,
      stored: true,
      storedAfterMs: 0,
      source: this.#sourceOf(index),
      originID: this.#origins.all[(this.#way.get(index) & 0xff_ff) - 1],
    })
  }
}
