import { pipeline, Readable, type Transform } from 'node:stream'
import zlib from 'node:zlib'
import { ValidationError } from '../../core/errors.js'
import { codeOf } from '../../local/files.js'

/** What Node has from 22.15 and 23.8 on. */
const { createZstdDecompress } = zlib as { readonly createZstdDecompress?: () => Transform }

/**
 * Unpacks what is packed by gzip or zstd, as its first bytes say; else passes the chunks on. `onCut` is called where the end is
 * missing, as in a file that is being written.
 */
export async function* unpack(
  what: string,
  chunks: AsyncIterable<Uint8Array>,
  onCut: () => void,
): AsyncGenerator<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]()
  const head = await iterator.next()
  if (head.done) return
  async function* all(): AsyncGenerator<Uint8Array> {
    yield head.value
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  const unpacker = unpackerOf(what, head.value)
  if (unpacker === undefined) yield* all()
  else {
    // A failure shows where the unpacker is read.
    pipeline(Readable.from(all()), unpacker, () => undefined)
    try {
      yield* unpacker as AsyncIterable<Uint8Array>
    } catch (thrown) {
      const code = codeOf(thrown)
      if (code === 'Z_BUF_ERROR') onCut()
      else if (/^(Z|ZSTD)_/.test(code)) throw new ValidationError(`${what} is damaged: ${code}`)
      else throw thrown
    }
  }
}

function unpackerOf(what: string, head: Uint8Array): Transform | undefined {
  const magic = Buffer.from(head.subarray(0, 4)).toString('hex')
  if (magic.startsWith('1f8b')) return zlib.createGunzip()
  if (magic !== '28b52ffd') return undefined
  if (createZstdDecompress === undefined)
    throw new ValidationError(`${what} is packed by zstd, which needs Node 22.15`)
  return createZstdDecompress()
}

/** The lines of a text, without their ends. One of more bytes than allowed is an error. */
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
