import { type FileHandle, open } from 'node:fs/promises'
import { ValidationError } from '../../core/errors.js'
import { codeOf } from '../../local/files.js'
import { fileError } from '../input/files.js'
import type { Format, PrintedReport } from '../output/format.js'

/** A file that reports are written into. */
export interface ReportFile {
  /** The time of the last report that it held when it was opened; undefined where it was empty. */
  readonly last: number | undefined
  write(report: PrintedReport): Promise<void> | undefined
  /** Writes what is left, and closes the file. */
  close(): Promise<void>
}

const CHUNK = 65_536
/** Bytes at the end of a file in which its last line begins. */
const TAIL = 1_048_576

/**
 * Opens the file of `--out`. One that holds reports is continued with `resume` alone: what a command that was ended has left of
 * a line is cut off.
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
  const { size, last } = await readEnd(file, path, feedID).catch(async (thrown: unknown) => {
    await file.close()
    throw thrown
  })
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

/** Where the last whole line ends, and the time of its report. */
async function readEnd(
  file: FileHandle,
  path: string,
  feedID: string,
): Promise<{ readonly size: number; readonly last: number | undefined }> {
  const { size } = await file.stat()
  const from = Math.max(0, size - TAIL)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from)
  const tail = buffer.subarray(0, bytesRead)
  const end = tail.lastIndexOf('\n') + 1
  const line = tail
    .subarray(tail.lastIndexOf('\n', end - 2) + 1, end)
    .toString()
    .trim()
  if (end === 0 || line.startsWith('feedID,')) return { size: from + end, last: undefined }
  const found = readLine(line)
  if (found.feedID !== feedID || !Number.isSafeInteger(found.time))
    throw new ValidationError(`--out ${path} holds no reports of feed ${feedID} to go on with`)
  return { size: from + end, last: found.time }
}

/** The feed and the time of a line of JSON or CSV, as the formats write it. */
function readLine(line: string): { readonly feedID: unknown; readonly time: number } {
  if (!line.startsWith('{')) {
    const [feedID, _name, _from, time] = line.split(',')
    return { feedID, time: Number(time) }
  }
  try {
    const { feedID, observationsTimestamp } = JSON.parse(line) as Record<string, unknown>
    return { feedID, time: Number(observationsTimestamp) }
  } catch {
    return { feedID: undefined, time: Number.NaN }
  }
}
