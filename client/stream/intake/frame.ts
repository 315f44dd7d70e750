import { TextDecoder } from '../../../core/platform.js'
import { WebSocketError } from '../../errors.js'

const text = new TextDecoder('utf-8', { fatal: true })

/**
 * The record in a message of the stream, `{"report": {…}}` in text or binary. What is in it is not looked at here.
 * Throws WebSocketError.
 */
export function parseFrame(data: Uint8Array): unknown {
  let frame: unknown
  try {
    frame = JSON.parse(text.decode(data))
  } catch {
    throw badFrame(data, 'it is not JSON in UTF-8')
  }
  if (typeof frame !== 'object' || frame === null || !('report' in frame)) {
    throw badFrame(data, 'it is not an object with a report')
  }
  return frame.report
}

/** The error for a message that breaks `rule`. It says nothing of what the message held. */
export function badFrame(data: Uint8Array, rule: string): WebSocketError {
  return new WebSocketError(`a message of ${data.byteLength} bytes is refused: ${rule}`, {
    code: 'WS_FRAME',
  })
}
