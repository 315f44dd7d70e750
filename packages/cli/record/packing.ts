import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { ValidationError } from 'sluice/core'

/** How the files of a recording are packed. */
export type PackingName = 'gzip' | 'zstd' | 'none'

export const packingNames: readonly PackingName[] = ['gzip', 'zstd', 'none']

/** Packs a part of a file so that the parts one after the other are a whole packed file. */
export interface Packing {
  /** The ending of files: `.ndjson.gz`. */
  readonly ending: string
  readonly pack: (text: string) => Promise<Uint8Array>
}

type Pack = (bytes: Uint8Array) => Promise<Uint8Array>

/** What Node has from 22.15 and 23.8 on. */
const { zstdCompress } = zlib as {
  readonly zstdCompress?: (
    bytes: Uint8Array,
    done: (error: Error | null, packed: Uint8Array) => void,
  ) => void
}

/** The packing of a name. */
export function packingOf(name: PackingName): Packing {
  if (name === 'none') return { ending: '.ndjson', pack: async text => Buffer.from(text) }
  if (name === 'gzip') return packed('.ndjson.gz', promisify(zlib.gzip) as Pack)
  if (zstdCompress === undefined) throw new ValidationError('--pack zstd needs Node 22.15, or 23.8')
  return packed('.ndjson.zst', promisify(zstdCompress))
}

function packed(ending: string, pack: Pack): Packing {
  return { ending, pack: text => pack(Buffer.from(text)) }
}
