import { TextEncoder } from '../../core/platform.js'
import type { ConfidentialCall } from './call.js'

const encoder = new TextEncoder()

/** How many bytes a text has in UTF-8. */
export function utf8Length(text: string): number {
  return encoder.encode(text).byteLength
}

/** Bytes of a header line beside its name and its value: a colon, a space and the line's end. */
const LINE_BYTES = 4

/** How many bytes of a request go out: of its URL, each line of its headers as it is sent, and its body. */
export function requestSize({
  url,
  multiHeaders,
  body = '',
}: Pick<ConfidentialCall, 'url' | 'multiHeaders' | 'body'>): number {
  let size = utf8Length(url) + (typeof body === 'string' ? utf8Length(body) : body.byteLength)
  for (const [name, values] of multiHeaders)
    for (const value of values) size += utf8Length(name) + utf8Length(value) + LINE_BYTES
  return size
}
