import type { ConfidentialCall } from '../../core/types.js'

const BODYLESS: readonly string[] = ['GET', 'HEAD', 'DELETE', 'OPTIONS']

/**
 * The header lines of a request, name and value by turns, each under the name its caller gave it. What a layer sets takes
 * the place of lines of that name.
 */
export function writeHeaders(
  { method, url, headers, multiHeaders }: ConfidentialCall,
  bodyBytes: number | undefined,
): string[] {
  const lines = [...multiHeaders]
    .filter(([name]) => !headers.has(name))
    .flatMap(([name, values]) => values.map(value => [name, toBytes(value)] as const))
  const isFramed = bodyBytes !== undefined || !BODYLESS.includes(method)
  return [
    ['host', new URL(url).host] as const,
    ...lines,
    ...headers,
    ...(isFramed ? [['content-length', String(bodyBytes ?? 0)] as const] : []),
  ].flat()
}

/** Node writes a header's characters as bytes; UTF-8 is what is meant by those beyond ASCII. */
function toBytes(value: string): string {
  return Buffer.from(value, 'utf8').toString('latin1')
}

/** Header lines as they came, under their canonical names, as UTF-8 where they are that. */
export function readHeaders(raw: readonly string[]): Map<string, readonly string[]> {
  const lines = new Map<string, string[]>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = canonical(raw[at] as string)
    const values = lines.get(name) ?? []
    values.push(fromBytes(raw[at + 1] as string))
    lines.set(name, values)
  }
  return lines
}

function fromBytes(value: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}

/** `content-TYPE` as `Content-Type`. */
function canonical(name: string): string {
  return name.toLowerCase().replace(/(?:^|-)[a-z]/g, start => start.toUpperCase())
}

/** True where the caller gave a header of this name, in lower case. */
export function hasHeader({ headers, multiHeaders }: ConfidentialCall, name: string): boolean {
  return headers.has(name) || [...multiHeaders.keys()].some(each => each.toLowerCase() === name)
}
