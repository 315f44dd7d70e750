import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { ValidationError } from 'sluice/core'

/** How the files of a recording are compressed. */
export type CompressionName = 'gzip' | 'zstd' | 'none'

export const compressionNames: readonly CompressionName[] = ['gzip', 'zstd', 'none']

/** Compresses a file in parts. The concatenated parts are a valid compressed file. */
export interface Compression {
  /** The ending of the names of files: `.ndjson.gz`. */
  readonly ending: string
  readonly compress: (text: string) => Promise<Uint8Array>
}

type Compress = (bytes: Uint8Array) => Promise<Uint8Array>

/** Node.js has this function since 22.15 and 23.8; it is undefined in older versions. */
const { zstdCompress } = zlib as {
  readonly zstdCompress?: (
    bytes: Uint8Array,
    done: (error: Error | null, compressed: Uint8Array) => void,
  ) => void
}

/** Finds a compression by its name. */
export function compressionOf(name: CompressionName): Compression {
  if (name === 'none') return { ending: '.ndjson', compress: async text => Buffer.from(text) }
  if (name === 'gzip') return compressed('.ndjson.gz', promisify(zlib.gzip) as Compress)
  if (zstdCompress === undefined)
    throw new ValidationError('--compress zstd needs Node 22.15, or 23.8')
  return compressed('.ndjson.zst', promisify(zstdCompress))
}

function compressed(ending: string, compress: Compress): Compression {
  return { ending, compress: text => compress(Buffer.from(text)) }
}
