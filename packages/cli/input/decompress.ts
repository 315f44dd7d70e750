import zlib from 'node:zlib'
import { ValidationError } from 'sluice/core'
import { codeOf, gunzip } from 'sluice/internal'

interface Frame {
  readonly buffer: Uint8Array
  /** Its `bytesWritten` is the size of the compressed frame in bytes. */
  readonly engine: { readonly bytesWritten: number }
}

/** Node.js has this function since 22.15 and 23.8; it is undefined in older versions. */
const { zstdDecompressSync } = zlib as {
  readonly zstdDecompressSync?: (bytes: Uint8Array, options: { info: true }) => Frame
}

type Chunks = AsyncIterable<Uint8Array>

/**
 * Decompresses gzip and zstd, which it detects by their first bytes. Passes other data on
 * unchanged. Calls `onCut` where the data can't be read any further: their end is missing, as in a
 * file that is still being written, or they are damaged.
 */
export async function* decompress(
  what: string,
  chunks: Chunks,
  onCut: (how: string) => void,
): AsyncGenerator<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]()
  const head = await iterator.next()
  if (head.done) return
  async function* all(): AsyncGenerator<Uint8Array> {
    yield head.value
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  const magic = Buffer.from(head.value.subarray(0, 4)).toString('hex')
  try {
    if (magic.startsWith('1f8b')) yield* gunzip(all())
    else if (magic === '28b52ffd') yield* decompressFrames(what, all())
    else yield* all()
  } catch (thrown) {
    const code = codeOf(thrown)
    if (code === 'Z_BUF_ERROR') onCut('ends in the middle of its compressed data')
    else if (/^Z_|^ZSTD_/.test(code)) onCut(`is damaged (${code})`)
    else throw thrown
  }
}

/**
 * Decompresses frame by frame. A recording has a frame for each part, but the stream of Node.js
 * ends after the first frame.
 */
async function* decompressFrames(what: string, chunks: Chunks): AsyncGenerator<Uint8Array> {
  if (zstdDecompressSync === undefined)
    throw new ValidationError(`${what} is compressed by zstd, which needs Node 22.15`)
  const parts: Uint8Array[] = []
  for await (const chunk of chunks) parts.push(chunk)
  for (let rest: Uint8Array = Buffer.concat(parts); rest.byteLength > 0; ) {
    const { buffer, engine } = zstdDecompressSync(rest, { info: true })
    yield buffer
    rest = rest.subarray(engine.bytesWritten)
  }
}

/**
 * Yields the lines of a text, without their line breaks. Throws if a line is longer than
 * `maxLength`.
 */
export async function* linesOf(
  what: string,
  chunks: AsyncIterable<Uint8Array>,
  maxLength = 67_108_864,
): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() as string
    if (rest.length > maxLength)
      throw new ValidationError(`${what} must have at most ${maxLength} characters a line`)
    yield* lines
  }
  rest += decoder.decode()
  if (rest !== '') yield rest
}
