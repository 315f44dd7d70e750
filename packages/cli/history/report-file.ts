import { type FileHandle, open } from 'node:fs/promises'
import { ValidationError } from 'sluice/core'
import { codeOf } from 'sluice/internal'
import { fileError } from '../input/files.js'
import type { Format, PrintedReport } from '../output/format.js'
import { isWrittenIn, readLine } from './written-line.js'

/** A file that reports are written into. */
export interface ReportFile {
  /** The time of the last report that it held when it was opened; undefined where it was empty. */
  readonly last: number | undefined
  write(report: PrintedReport): Promise<void> | undefined
  /** Writes what is left, and closes the file. */
  close(): Promise<void>
}

const CHUNK = 65_536
/** Bytes at the end of a file in which its last line begins, and at its start in which its first lines end. */
const TAIL = 1_048_576

/**
 * Opens the file of `--out`. One that holds reports is continued with `resume` alone, in its own format: what a command that was
 * ended has left of a line is cut off.
 */
export async function openReportFile(
  path: string,
  format: Format,
  feedID: string,
  resume: boolean,
): Promise<ReportFile> {
  const file = await open(path, resume ? 'a+' : 'wx').catch((cause: unknown) => {
    if (codeOf(cause) === 'EEXIST')
      throw new ValidationError(`--out ${path} exists: --resume goes on with it`)
    throw fileError('--out', path, cause, 'written to')
  })
  const { size, last } = await findEnd(file, path, feedID, format).catch(
    async (thrown: unknown) => {
      await file.close()
      throw thrown
    },
  )
  await file.truncate(size)
  let text = size === 0 ? format.head : ''
  async function flush(): Promise<void> {
    const chunk = text
    text = ''
    await file.appendFile(chunk)
  }
  return {
    last,
    write(report) {
      text += `${format.line(report)}\n`
      return text.length < CHUNK ? undefined : flush()
    },
    async close() {
      try {
        await flush()
        await file.sync()
      } finally {
        await file.close()
      }
    },
  }
}

interface End {
  /** Where the last whole line ends. */
  readonly size: number
  /** The time of its report; undefined where it has none. */
  readonly last: number | undefined
}

/** Finds where a file goes on, and throws where it holds another feed or another format. */
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
    throw new ValidationError(`--out ${path} holds no reports of feed ${feedID} to go on with`)
  const { head } = format
  const start = (await read(file, 0, Math.min(size, TAIL))).toString()
  const [first = ''] = start.slice(head.length).split('\n', 1)
  const { decodeReport } = await import('sluice/plugins/decoders')
  const lines = `${line}\n` === head ? [] : [first, line]
  const isSame = (each: string): boolean => isWrittenIn(format, each, feedID, decodeReport)
  if (!start.startsWith(head) || !lines.every(isSame))
    throw new ValidationError(
      `--resume can’t add ${head === '' ? 'JSON' : 'CSV'} to ${path}, which has another format: give --json or --csv, --raw and --decimals as for its first reports`,
    )
  return { size, last: isHead ? undefined : time }
}

/** The last whole line, and where it ends. */
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
