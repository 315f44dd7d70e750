declare module 'snappyjs/snappy_compressor.js' {
  /** Writes the raw block format of Snappy, without frames. */
  export class SnappyCompressor {
    constructor(uncompressed: Uint8Array)
    maxCompressedLength(): number
    /** Returns the number of bytes that it has written. */
    compressToBuffer(output: Uint8Array): number
  }
}
