import { type FileHandle, open, rm, stat } from 'node:fs/promises'
import { ValidationError } from 'sluice/core'
import { codeOf } from 'sluice/internal'
import { decodeReport } from 'sluice/plugins/decoders'
import { fileError } from '../input/files.js'
import type { Format, PrintedReport } from './format.js'

/** How many characters are collected before they are written to the file. */
const CHUNK = 65_536
/**
 * How many bytes are read at the end of a file to find its last line. As many are read at the start
 * to find its first lines.
 */
const TAIL = 1_048_576

/** A JSON or CSV file of reports. */
export class TextFile {
  /**
   * The time of the last report that the file held when it was opened; undefined if the file held
   * none.
   */
  readonly last: number | undefined
  readonly #path: string
  readonly #file: FileHandle
  readonly #format: Format
  readonly #wasEmpty: boolean
  #text: string
  #hasFailed = false

  private constructor(path: string, file: FileHandle, format: Format, { size, last }: End) {
    this.last = last
    this.#path = path
    this.#wasEmpty = size === 0
    this.#file = file
    this.#format = format
    this.#text = size === 0 ? format.head : ''
  }

  /**
   * Opens the file of `--out`. With `resume`, it continues a file that holds reports in the same
   * format. If a killed command left an incomplete line at the end, the line is cut off.
   */
  static async open(
    path: string,
    format: Format,
    feedID: string,
    resume: boolean,
  ): Promise<TextFile> {
    const found = await stat(path).catch(() => undefined)
    if (found?.isDirectory())
      throw new ValidationError(`--out must be the path of a file: ${path} is a folder`)
    if (found !== undefined && !found.isFile())
      throw new ValidationError(
        `--out must be the path of a file: ${path} is a device or a pipe; without --out the reports go to standard output`,
      )
    const file = await open(path, resume ? 'a+' : 'wx').catch((cause: unknown) => {
      if (codeOf(cause) === 'EEXIST')
        throw new ValidationError(`--out ${path} exists: --resume continues it`)
      throw fileError('--out', path, cause, 'written to')
    })
    try {
      const end = await findEnd(file, path, feedID, format)
      await file.truncate(end.size)
      return new TextFile(path, file, format, end)
    } catch (thrown) {
      await file.close()
      throw thrown
    }
  }

  write(report: PrintedReport): Promise<void> | undefined {
    this.#text += `${this.#format.line(report)}\n`
    return this.#text.length < CHUNK ? undefined : this.#flush()
  }

  /** Writes the rest, and closes the file. */
  async close(): Promise<void> {
    try {
      await this.#flush()
      await this.#file.sync().catch((cause: unknown) => {
        throw fileError('--out', this.#path, cause, 'written to')
      })
    } finally {
      const { size } = await this.#file.stat()
      await this.#file.close()
      if (this.#hasFailed && this.#wasEmpty && size === 0) await rm(this.#path, { force: true })
    }
  }

  /** Closes the file after a failure before the first report. A file without reports is removed. */
  async discard(): Promise<void> {
    await this.#file.close()
    if (this.#wasEmpty) await rm(this.#path, { force: true })
  }

  async #flush(): Promise<void> {
    const chunk = this.#text
    this.#text = ''
    await this.#file.appendFile(chunk).catch((cause: unknown) => {
      this.#hasFailed = true
      throw fileError('--out', this.#path, cause, 'written to')
    })
  }
}

interface End {
  /** The position at which the last complete line ends. */
  readonly size: number
  /** The time of the report in that line; undefined if the line has none. */
  readonly last: number | undefined
}

/**
 * Finds the position from which a file continues. Throws if the file holds another feed or another
 * format.
 */
async function findEnd(
  file: FileHandle,
  path: string,
  feedID: string,
  format: Format,
): Promise<End> {
  const { size, line } = await readEnd(file)
  if (size === 0) return { size, last: undefined }
  const isHead = line.startsWith('feedID,')
  const { feedID: found, time } = readLine(line)
  if (!isHead && (found !== feedID || !Number.isSafeInteger(time)))
    throw new ValidationError(`--out ${path} holds no reports of feed ${feedID} to continue`)
  const { head } = format
  const start = (await read(file, 0, Math.min(size, TAIL))).toString()
  const [first = ''] = start.slice(head.length).split('\n', 1)
  const lines = `${line}\n` === head ? [] : [first, line]
  const isSame = (each: string): boolean => isWrittenIn(format, each, feedID)
  if (!start.startsWith(head) || !lines.every(isSame))
    throw new ValidationError(
      `--resume can’t add ${head === '' ? 'JSON' : 'CSV'} to ${path}, which has another format: give --json or --csv, --raw and --decimals as for its first reports`,
    )
  return { size, last: isHead ? undefined : time }
}

/** The last complete line, and the position at which it ends. */
async function readEnd(
  file: FileHandle,
): Promise<{ readonly size: number; readonly line: string }> {
  const { size } = await file.stat()
  const from = Math.max(0, size - TAIL)
  const tail = await read(file, from, size - from)
  const end = tail.lastIndexOf('\n') + 1
  const line = tail.subarray(tail.lastIndexOf('\n', end - 2) + 1, end)
  return { size: from + end, line: line.toString().trim() }
}

async function read(file: FileHandle, from: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, from)
  return buffer.subarray(0, bytesRead)
}

/** The values in a line of a file, unchecked. */
interface WrittenLine {
  readonly feedID: unknown
  readonly time: number
  readonly fullReport: unknown
  /** The part that depends on the format: the columns of CSV, the prices of JSON. */
  readonly values: string | undefined
}

/** Reads a line of JSON or CSV, as the formats write it. */
function readLine(line: string): WrittenLine {
  if (!line.startsWith('{')) {
    const [feedID, _name, _from, time, ...values] = line.split(',')
    return { feedID, time: Number(time), fullReport: values.pop(), values: values.join() }
  }
  try {
    const { feedID, observationsTimestamp, fullReport, prices } = JSON.parse(line) as Record<
      string,
      unknown
    >
    const time = Number(observationsTimestamp)
    return { feedID, time, fullReport, values: JSON.stringify(prices) }
  } catch {
    return { feedID: undefined, time: Number.NaN, fullReport: undefined, values: undefined }
  }
}

/** Whether a format would write the report of a line in the same way. */
function isWrittenIn(format: Format, line: string, feedID: string): boolean {
  const written = readLine(line)
  const { fullReport, time } = written
  if (written.feedID !== feedID || typeof fullReport !== 'string') return false
  const report: PrintedReport & { readonly toJSON: () => unknown } = {
    feedID,
    fullReport,
    validFromTimestamp: time,
    observationsTimestamp: time,
    get decoded() {
      return decodeReport(fullReport, feedID)
    },
    toJSON: () => ({ feedID }),
  }
  return readLine(format.line(report)).values === written.values
}
