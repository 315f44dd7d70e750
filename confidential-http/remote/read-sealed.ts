import type { IncomingMessage } from 'node:http'
import { Refusal } from './refusal.js'
import { MAX_SEALED_BYTES } from './sealing.js'

/**
 * Reads what was posted. Of what is longer than `maxBytes` nothing is kept; it is read all the same, up to what callers
 * of ours may send, so that they get to see the refusal.
 */
export function readSealed(request: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const tooLong = (): void => reject(new Refusal(413, 'the request is too long'))
    request.on('data', (chunk: Buffer) => {
      size += chunk.byteLength
      if (size <= maxBytes) chunks.push(chunk)
      else chunks.length = 0
      if (size <= Math.max(maxBytes, MAX_SEALED_BYTES)) return
      request.pause()
      tooLong()
    })
    request.on('end', () => (size > maxBytes ? tooLong() : resolve(Buffer.concat(chunks))))
    request.on('error', reject)
    request.on('close', () => reject(new Error('the connection was closed')))
  })
}
