import { constants } from 'node:fs'
import { type FileHandle, open, readdir, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { codeOf, gunzip, quoted, type ReportChain, ReportLinks, shown } from 'sluice/internal'
import { isFeedID, readHead } from 'sluice/report'
import { ToolError } from './tool-error.js'

/** The most bytes of a recording, as it lies on the disk, and once it is decompressed. */
const MAX_FILE = 67_108_864
const MAX_TEXT = 536_870_912
const MAX_LINES = 1_000_000
/** The most characters of a line: a report has some 2000. */
const MAX_LINE = 65_536
/** The most files that an error names. */
const MAX_NAMED = 10

/** What a recording holds. */
export interface Recording {
  readonly chains: readonly ReportChain[]
  /** How many lines are no report. */
  readonly unreadable: number
  /** Whether the compressed data end early, as while they are written, or are damaged. */
  readonly isCut: boolean
}

/** Reads a recording of the directory, and finds the gaps between its reports. */
export async function readRecording(
  folder: string,
  name: string,
  feedID: string | undefined,
  signal: AbortSignal,
): Promise<Recording> {
  const file = await openInside(folder, name)
  try {
    return await readLinks(file, feedID, signal)
  } finally {
    await file.close()
  }
}

/**
 * Opens a regular file inside the directory. Links are followed first, and the file that is opened
 * must be the one that was found, so a link that changes meanwhile leads nowhere.
 */
async function openInside(folder: string, name: string): Promise<FileHandle> {
  const outside = new ToolError(
    'invalid-input',
    'file must be the name of a file in the directory of recordings, and lie inside it',
  )
  if (name.includes('\0')) throw outside
  let path: string
  try {
    path = await realpath(join(folder, name))
  } catch {
    // What lies elsewhere is not told, not even whether it exists.
    if (/(^|[\\/])\.\.([\\/]|$)/.test(name) || /^[\\/]|^[a-z]:/i.test(name)) throw outside
    throw new ToolError(
      'invalid-input',
      `file must name a recording: there is no ${quoted(name)}. ${await listNames(folder)}`,
    )
  }
  if (!path.startsWith(folder.endsWith(sep) ? folder : folder + sep)) throw outside
  const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch(thrown => {
    throw new ToolError('invalid-input', `file can’t be read (${shown(codeOf(thrown), 20)})`)
  })
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw new ToolError('invalid-input', 'file must be a regular file')
    if (stat.size > MAX_FILE)
      throw new ToolError('too-large', `file must have at most ${MAX_FILE} bytes`)
    if ((await realpath(path)) !== path) throw outside
    return file
  } catch (thrown) {
    await file.close()
    throw thrown
  }
}

async function listNames(folder: string): Promise<string> {
  const names = (await readdir(folder)).filter(each => /\.(nd)?jsonl?(\.gz)?$/.test(each)).sort()
  if (names.length === 0) return 'The directory has no recordings.'
  const listed = names.slice(-MAX_NAMED).map(each => quoted(each))
  return `The last by name are ${listed.join(', ')}.`
}

async function readLinks(
  file: FileHandle,
  feedID: string | undefined,
  signal: AbortSignal,
): Promise<Recording> {
  const links = new ReportLinks()
  let unreadable = 0
  let isCut = false
  try {
    for await (const line of linesOf(await contentOf(file), signal)) {
      if (line.trim() === '') continue
      const report = readLine(line)
      if (report === undefined) unreadable++
      else if (feedID === undefined || report.feedID === feedID) links.add(report)
    }
  } catch (thrown) {
    if (!codeOf(thrown).startsWith('Z_')) throw thrown
    isCut = true
  }
  return { chains: links.check(), unreadable, isCut }
}

/** The bytes of a file. Those of a file of gzip are decompressed. */
async function contentOf(file: FileHandle): Promise<AsyncIterable<Uint8Array>> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0)
  const magic = buffer.subarray(0, bytesRead).toString('hex')
  if (magic === '28b52ffd')
    throw new ToolError('invalid-input', 'file is compressed by zstd: only gzip or none is read')
  const chunks = file.createReadStream({ start: 0, end: MAX_FILE, autoClose: false })
  if (!magic.startsWith('1f8b')) return chunks
  return gunzip(chunks)
}

async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let [rest, size, count] = ['', 0, 0]
  for await (const chunk of chunks) {
    signal.throwIfAborted()
    size += chunk.byteLength
    if (size > MAX_TEXT)
      throw new ToolError('too-large', `file must have at most ${MAX_TEXT} bytes of text`)
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() as string
    count += lines.length
    if (count > MAX_LINES)
      throw new ToolError('too-large', `file must have at most ${MAX_LINES} lines`)
    if (rest.length > MAX_LINE)
      throw new ToolError('too-large', `a line of file must have at most ${MAX_LINE} characters`)
    yield* lines
  }
  if (rest !== '') yield rest
}

/** Where the signed feed id begins and ends in the text of a report. */
const [FEED_FROM, FEED_TO] = [514, 578]

/** The feed and the times that a line's report is signed for; undefined if it is no report. */
function readLine(line: string): Parameters<ReportLinks['add']>[0] | undefined {
  try {
    const { fullReport } = JSON.parse(line) as { readonly fullReport?: unknown }
    if (typeof fullReport !== 'string') return undefined
    const feedID = `0x${fullReport.slice(FEED_FROM, FEED_TO).toLowerCase()}`
    if (!isFeedID(feedID)) return undefined
    const { observationsTimestamp: time, validFromTimestamp: from = time } = readHead(
      fullReport,
      feedID,
    )
    return { feedID, fullReport, validFromTimestamp: from, observationsTimestamp: time }
  } catch {
    return undefined
  }
}
