import { createGunzip } from 'node:zlib'

/** zlib drops the output of a piece of compressed data that it can't read to its end. */
const PIECE = 4096

/**
 * Decompresses gzip. If the data are damaged or end early, yields the bytes before that place, and
 * then throws the error of zlib. At most the output of the last `PIECE` compressed bytes before the
 * damage is lost. A stream of Node.js would also drop the bytes that nobody had read.
 */
export async function* gunzip(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const decoder = createGunzip()
  const ready: Uint8Array[] = []
  let failure: Error | undefined
  decoder.on('data', bytes => ready.push(bytes))
  decoder.on('error', error => {
    failure = error
  })
  // After a failure, zlib closes and does not call back.
  let onClose = (): void => undefined
  decoder.once('close', () => onClose())
  const done = (begin: (after: () => void) => void): Promise<void> =>
    new Promise(resolve => {
      onClose = resolve
      begin(resolve)
    })
  try {
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.byteLength; at += PIECE) {
        await done(after => decoder.write(chunk.subarray(at, at + PIECE), after))
        yield* ready.splice(0)
        if (failure !== undefined) throw failure
      }
    }
    await done(() => decoder.end())
    yield* ready.splice(0)
    if (failure !== undefined) throw failure
  } finally {
    decoder.destroy()
  }
}
